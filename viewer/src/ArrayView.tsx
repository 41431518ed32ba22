/** The values of an array: sliders above a heat map, a line or a table. */
import { Selector } from '@h5web/lib';
import { Suspense, useDeferredValue, useEffect, useMemo, useState } from 'react';
import { ErrorBoundary } from 'react-error-boundary';

import { changeSettings, useSettings } from './address';
import { Failure } from './Failure';
import { HeatmapView } from './HeatmapView';
import { LineView } from './LineView';
import type { ArrayNode, Coordinates } from './model';
import type { ArrayEntity } from './provider';
import { fetchCoordinates } from './requests';
import { Sliders } from './Sliders';
import { formatSlice, parseSlice } from './slice';
import { ScalarView, TableView } from './TableView';
import { EntityContext } from './values';

type View = 'heatmap' | 'line' | 'table';

const LABELS: Record<View, string> = { heatmap: 'Heat map', line: 'Line', table: 'Table' };
const PARTS = ['abs', 'real', 'imag', 'phase'];
/** Arrays with fewer elements are tables by default. */
const SMALL = 25;

export function ArrayView({ entity }: { entity: ArrayEntity }) {
  const { node } = entity;
  if (node.shape.length === 0) {
    return <ScalarView node={node} />;
  }
  if (node.shape.includes(0)) {
    return <p className="note">This array has no elements.</p>;
  }
  return (
    <EntityContext.Provider value={entity}>
      <Slices node={node} />
    </EntityContext.Provider>
  );
}

function Slices({ node }: { node: ArrayNode }) {
  const settings = useSettings('view', 'slice', 'field', 'part', 'reduce');
  const part = settings.part ?? 'abs';
  const isMean = settings.reduce === 'mean';
  const coordinates = useCoordinates(node);
  const plotted = node.fields.find(({ name, numbers }) => numbers && name === settings.field);
  const views = listViews(node, Boolean(plotted));
  const view = views.find((item) => item === settings.view) ?? getDefaultView(node, views);
  const axes: ('x' | 'y')[] = view === 'line' || node.shape.length === 1 ? ['x'] : ['y', 'x'];
  const slice = parseSlice(settings.slice, node.shape, axes.length as 1 | 2);
  const parameters = useMemo(() => {
    const complex = node.is_complex ? { part } : {};
    const field = plotted ? { field: plotted.name } : {};
    return { ...complex, ...field, ...(isMean && view === 'heatmap' ? { reduction: 'mean' } : {}) };
  }, [node, plotted, part, isMean, view]);

  // The old picture stays until the new one has arrived.
  const text = JSON.stringify([slice, parameters]);
  const deferredText = useDeferredValue(text);
  const [shownSlice, shownParameters] = useMemo(() => JSON.parse(deferredText), [deferredText]);

  return (
    <>
      <div className="controls">
        <div role="tablist" aria-label="View" className="views">
          {views.map((item) => (
            <button
              key={item}
              type="button"
              role="tab"
              aria-selected={item === view}
              onClick={() => changeSettings({ view: item, slice: '', scale: '' })}
            >
              {LABELS[item]}
            </button>
          ))}
        </div>
        {node.is_complex && view !== 'table' && (
          <Selector
            label="Part"
            value={part}
            options={PARTS}
            onChange={(value) => changeSettings({ part: value === 'abs' ? '' : value })}
            renderOption={(value) => value}
          />
        )}
        {node.fields.some(({ numbers }) => numbers) && (
          <Selector
            label="Field"
            value={settings.field ?? ''}
            options={['', ...node.fields.filter(({ numbers }) => numbers).map(({ name }) => name)]}
            onChange={(field) => changeSettings({ field, view: '' })}
            renderOption={(field) => field || 'all fields'}
          />
        )}
        {view === 'heatmap' && (
          <label className="check">
            <input
              type="checkbox"
              checked={isMean}
              onChange={(event) => changeSettings({ reduce: event.target.checked ? 'mean' : '' })}
            />
            Mean of skipped elements
          </label>
        )}
        {text !== deferredText && <span className="busy" role="status" aria-label="Loading" />}
      </div>
      {node.packing.length > 0 && (
        <p className="note">
          {view === 'table' ? 'Stored elements, without regard to ' : 'Values by '}
          {`the attributes ${node.packing.join(', ')}.`}
        </p>
      )}
      <Sliders
        node={node}
        slice={slice}
        axes={axes}
        coordinates={coordinates}
        onChange={(next) => changeSettings({ slice: formatSlice(next) })}
      />
      <ErrorBoundary FallbackComponent={Failure} resetKeys={[deferredText, view]}>
        <Suspense fallback={<p className="note">Reading values …</p>}>
          {view === 'heatmap' && (
            <HeatmapView
              node={node}
              slice={shownSlice}
              parameters={shownParameters}
              coordinates={coordinates}
            />
          )}
          {view === 'line' && (
            <LineView
              node={node}
              slice={shownSlice}
              parameters={shownParameters}
              coordinates={coordinates}
            />
          )}
          {view === 'table' && <TableView node={node} slice={shownSlice} />}
        </Suspense>
      </ErrorBoundary>
    </>
  );
}

function listViews(node: ArrayNode, hasField: boolean): View[] {
  if (node.numbers === null && !hasField) {
    return ['table'];
  }
  return node.shape.length === 1 ? ['line', 'table'] : ['heatmap', 'line', 'table'];
}

function getDefaultView(node: ArrayNode, views: View[]): View {
  const size = node.shape.reduce((product, length) => product * length, 1);
  const isSmall = size < SMALL && node.shape.length > 1;
  return isSmall || /^(datetime|timedelta)/.test(node.dtype) ? 'table' : views[0];
}

function useCoordinates(node: ArrayNode): (Coordinates | null)[] {
  const nothing = useMemo(() => node.shape.map(() => null), [node]);
  const [loaded, setLoaded] = useState<{ node: ArrayNode; value: (Coordinates | null)[] }>();
  useEffect(() => {
    let isActive = true;
    fetchCoordinates(node.path).then(
      (value) => isActive && setLoaded({ node, value }),
      () => undefined, // indices remain as labels
    );
    return () => {
      isActive = false;
    };
  }, [node]);
  return loaded?.node === node ? loaded.value : nothing;
}
