/** One axis of numbers as a line. */
import {
  type AxisScaleType,
  CurveType,
  getDomain,
  LineVis,
  ScaleSelector,
  ScaleType,
  Separator,
  SnapshotBtn,
  ToggleBtn,
  Toolbar,
} from '@h5web/lib';
import ndarray from 'ndarray';
import { useMemo } from 'react';

import { useSettings } from './address';
import type { ArrayNode, Coordinates } from './model';
import { MAX_ELEMENTS } from './requests';
import { formatPosition } from './Sliders';
import { formatSelection, formatSlice, getDimensionName, type Slice } from './slice';
import { useNumbers } from './values';

const SCALES = [ScaleType.Linear, ScaleType.Log, ScaleType.SymLog] as AxisScaleType[];

interface Props {
  node: ArrayNode;
  slice: Slice;
  parameters: Record<string, string>;
  coordinates: (Coordinates | null)[];
}

export function LineView({ node, slice, parameters, coordinates }: Props) {
  const [settings, change] = useSettings();
  const dimension = slice.indexOf('x');
  const length = node.shape[dimension];
  const step = Math.max(Math.ceil(length / MAX_ELEMENTS), 1);
  const selection = formatSelection(slice, { x: step > 1 ? `::${step}` : ':' });
  const numbers = useNumbers(node, { ...parameters, selection });
  const scale = SCALES.find((option) => option === settings.scale) ?? ScaleType.Linear;
  const values = useMemo(() => ndarray(new Float64Array(numbers), [numbers.length]), [numbers]);
  const domain = useMemo(() => getDomain(values, { scaleType: scale }), [values, scale]);
  const positions = useMemo(
    () => findPositions(coordinates[dimension], length, step),
    [coordinates, dimension, length, step],
  );
  if (length === 0) {
    return <p className="note">This line has no elements.</p>;
  }
  const hasPoints = settings.points ? settings.points === '1' : length <= 100;
  const name = getDimensionName(node, dimension);
  const unit = coordinates[dimension]?.unit;
  return (
    <div className="plane">
      <div className="toolbar">
        <Toolbar>
          <ScaleSelector
            label="Scale"
            value={scale}
            options={SCALES}
            onScaleChange={(value) => change({ scale: value === ScaleType.Linear ? '' : value })}
          />
          <Separator />
          <ToggleBtn
            label="Points"
            value={hasPoints}
            onToggle={() => change({ points: hasPoints ? '0' : '1' })}
          />
          <SnapshotBtn />
        </Toolbar>
      </div>
      {step > 1 && (
        <p className="note">{`The line shows every ${step}th of ${length} elements.`}</p>
      )}
      <div className="plane-figure" data-slice={formatSlice(slice)}>
        <LineVis
          dataArray={values}
          domain={domain}
          scaleType={scale}
          curveType={hasPoints ? CurveType.LineAndGlyphs : CurveType.LineOnly}
          abscissaParams={{ label: unit ? `${name} (${unit})` : name, value: positions }}
          ordinateLabel={String(node.attributes.units ?? node.attributes.unit ?? '')}
          renderTooltip={({ xi }) => (
            <>
              {`${name}=${formatPosition(xi * step, coordinates[dimension])}`}
              <div>
                <strong>{numbers[xi]}</strong>
              </div>
            </>
          )}
          testid="line"
        />
      </div>
    </div>
  );
}

/** Return positions of the shown elements, if they ascend or descend. */
function findPositions(
  coordinates: Coordinates | null,
  length: number,
  step: number,
): number[] | undefined {
  const positions = coordinates?.positions;
  if (!positions && step > 1) {
    return Array.from({ length: Math.ceil(length / step) }, (_, i) => i * step);
  }
  const isMonotonic = (sign: number) =>
    positions?.every((position, i) => i === 0 || sign * (position - positions[i - 1]) > 0);
  if (!positions || length < 2 || !(isMonotonic(1) || isMonotonic(-1))) {
    return undefined;
  }
  return positions.filter((_, i) => i % step === 0);
}
