/** One axis of numbers as a line. Long lines show the minimum and the maximum of blocks. */
import {
  type AxisScaleType,
  CurveType,
  DataCurve,
  getDomain,
  LineVis,
  ScaleSelector,
  ScaleType,
  Separator,
  SnapshotBtn,
  ToggleBtn,
  Toolbar,
  useCameraState,
  useVisCanvasContext,
} from '@h5web/lib';
import ndarray from 'ndarray';
import { memo, useEffect, useMemo, useState } from 'react';

import { changeSettings, useSettings } from './address';
import { ExactValue } from './ExactValue';
import type { ArrayNode, Coordinates } from './model';
import { fetchNumbers } from './requests';
import { formatPosition } from './Sliders';
import { formatSelection, formatSlice, getDimensionName, type Slice } from './slice';
import { useNumbers } from './values';

const SCALES = [ScaleType.Linear, ScaleType.Log, ScaleType.SymLog] as AxisScaleType[];
/** Lines with more elements are drawn by block. */
const MAX_POINTS = 1 << 15;
/** Minima and maxima need all elements; larger lines show every n-th element. */
const MAX_BYTES = 2 ** 31;
const COLOR = 'darkblue';

interface Props {
  node: ArrayNode;
  slice: Slice;
  parameters: Record<string, string>;
  coordinates: (Coordinates | null)[];
}

export const LineView = memo((props: Props) => {
  const { node, slice, coordinates } = props;
  const settings = useSettings('scale', 'points');
  const dimension = slice.indexOf('x');
  const length = node.shape[dimension];
  const step = Math.max(Math.ceil((2 * length) / MAX_POINTS), 1);
  const isBlocks = length > MAX_POINTS;
  const points = useLine(props, isBlocks ? step : 1);
  const scale = SCALES.find((option) => option === settings.scale) ?? ScaleType.Linear;
  const values = useMemo(() => ndarray(points, [points.length]), [points]);
  const domain = useMemo(() => getDomain(values, { scaleType: scale }), [values, scale]);
  const axis = coordinates[dimension];
  const positions = useMemo(
    () => findPositions(axis, length, points.length),
    [axis, length, points.length],
  );
  const hasPoints = settings.points ? settings.points === '1' : length <= 100;
  const name = getDimensionName(node, dimension);
  const perPoint = length / points.length;
  return (
    <div className="plane">
      <div className="toolbar">
        <Toolbar>
          <ScaleSelector
            label="Scale"
            value={scale}
            options={SCALES}
            onScaleChange={(value) =>
              changeSettings({ scale: value === ScaleType.Linear ? '' : value })
            }
          />
          <Separator />
          <ToggleBtn
            label="Points"
            value={hasPoints}
            onToggle={() => changeSettings({ points: hasPoints ? '0' : '1' })}
          />
          <SnapshotBtn />
        </Toolbar>
      </div>
      {isBlocks && (
        <p className="note">
          {`The line shows the smallest and the largest of ${step} elements each. Zoom in for more.`}
        </p>
      )}
      <div className="plane-figure" data-slice={formatSlice(slice)}>
        <LineVis
          dataArray={values}
          domain={domain}
          scaleType={scale}
          curveType={hasPoints ? CurveType.LineAndGlyphs : CurveType.LineOnly}
          abscissaParams={{ label: axis?.unit ? `${name} (${axis.unit})` : name, value: positions }}
          ordinateLabel={String(node.attributes.units ?? node.attributes.unit ?? '')}
          renderTooltip={({ x, xi }) => {
            const index = isBlocks && !axis?.positions ? Math.round(x) : Math.floor(xi * perPoint);
            const element = Math.min(Math.max(index, 0), length - 1);
            return (
              <>
                {`${name}: ${formatPosition(element, axis)}`}
                <div>
                  <ExactValue
                    path={node.path}
                    isPacked={node.packing.length > 0}
                    selection={formatSelection(slice, { x: String(element) })}
                  />
                </div>
              </>
            );
          }}
          testid="line"
        >
          {isBlocks && <Detail {...props} positions={positions!} perPoint={perPoint} />}
        </LineVis>
      </div>
    </div>
  );
});

/** Return the points of a whole line: its elements, or the minimum and maximum of blocks. */
function useLine({ node, slice, parameters }: Props, step: number): Float64Array {
  const isLarge = node.shape[slice.indexOf('x')] * node.item_bytes > MAX_BYTES;
  const selection = formatSelection(slice, { x: `::${step}` });
  const reduction = step === 1 || isLarge ? 'stride' : 'bounds';
  const numbers = useNumbers(node, { ...parameters, selection, reduction });
  return useMemo(() => new Float64Array(numbers), [numbers]);
}

/** The visible part of a long line, with more points. */
function Detail(props: Props & { positions: number[]; perPoint: number }) {
  const { node, slice, parameters, positions, perPoint } = props;
  const { getVisibleDomains } = useVisCanvasContext();
  const [low, high] = useCameraState(
    (camera) => getVisibleDomains(camera).xVisibleDomain,
    [getVisibleDomains],
    (a, b) => a[0] === b[0] && a[1] === b[1],
  );
  const length = node.shape[slice.indexOf('x')];
  const start = Math.max(Math.floor(findPoint(positions, low) * perPoint), 0);
  const stop = Math.min(Math.ceil(findPoint(positions, high) * perPoint), length);
  const [line, setLine] = useState<{ x: number[]; y: Float64Array }>();
  useEffect(() => {
    if (stop - start > length / 4 || stop <= start) {
      setLine(undefined);
      return undefined;
    }
    const controller = new AbortController();
    const timer = setTimeout(() => {
      const step = Math.max(Math.ceil((2 * (stop - start)) / MAX_POINTS), 1);
      const selection = formatSelection(slice, { x: `${start}:${stop}:${step}` });
      const reduction = step > 1 ? 'bounds' : 'stride';
      fetchNumbers(node.path, { ...parameters, selection, reduction }, controller.signal).then(
        (numbers) => {
          const y = new Float64Array(numbers);
          const distance = (stop - start) / y.length;
          const x = Array.from(y, (_, i) =>
            positionAt(positions, (start + i * distance) / perPoint),
          );
          setLine({ x, y });
        },
        () => undefined, // the coarse line stays
      );
    }, 150);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [node, slice, parameters, positions, perPoint, length, start, stop]);
  return line ? (
    <DataCurve abscissas={line.x} ordinates={line.y} color={COLOR} width={2.5} />
  ) : null;
}

/** Return the point at a position, between points and beyond the ends. */
function findPoint(positions: number[], position: number): number {
  const sign = positions[0] <= positions[positions.length - 1] ? 1 : -1;
  let [low, high] = [0, positions.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sign * (positions[middle] - position) < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

function positionAt(positions: number[], point: number): number {
  const index = Math.min(Math.floor(point), positions.length - 1);
  const next = Math.min(index + 1, positions.length - 1);
  return positions[index] + (point - index) * (positions[next] - positions[index]);
}

/** Return the positions of points, if coordinates ascend or descend, or else of long lines. */
function findPositions(
  coordinates: Coordinates | null,
  length: number,
  points: number,
): number[] | undefined {
  const positions = coordinates?.positions;
  const isMonotonic = (sign: number) =>
    positions?.every((position, i) => i === 0 || sign * (position - positions[i - 1]) > 0);
  const isUsable = positions && length > 1 && (isMonotonic(1) || isMonotonic(-1));
  if (points === length) {
    return isUsable ? positions : undefined;
  }
  const all = isUsable ? positions : undefined;
  return Array.from({ length: points }, (_, i) => {
    const index = (i * length) / points;
    return all ? positionAt(all, index) : index;
  });
}
