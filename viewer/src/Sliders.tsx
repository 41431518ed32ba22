/** One row for each dimension: its name, whether it is displayed, and a slider otherwise. */
import type { ArrayNode, Coordinates } from './model';
import { displayAxis, getDimensionName, type Slice } from './slice';

interface Props {
  node: ArrayNode;
  slice: Slice;
  axes: ('x' | 'y')[];
  coordinates: (Coordinates | null)[];
  onChange: (slice: Slice) => void;
}

export function Sliders(props: Props) {
  const { node, slice, axes, coordinates, onChange } = props;
  if (node.shape.length < axes.length || node.shape.length < 2) {
    return null;
  }
  return (
    <div className="sliders">
      {node.shape.map((length, i) => {
        const name = getDimensionName(node, i);
        const position = slice[i];
        return (
          <div key={i} className="slider">
            <span className="slider-name" title={`${name}: ${length} elements`}>
              {name}
            </span>
            {axes.map((axis) => (
              <button
                key={axis}
                type="button"
                className="slider-axis"
                aria-pressed={position === axis}
                aria-label={`Show ${name} along ${axis}`}
                onClick={() => onChange(displayAxis(slice, i, axis))}
              >
                {axis}
              </button>
            ))}
            {typeof position === 'number' ? (
              <>
                <input
                  type="range"
                  aria-label={name}
                  aria-valuetext={formatPosition(position, coordinates[i])}
                  min={0}
                  max={length - 1}
                  value={position}
                  onChange={(event) => {
                    const index = Number(event.target.value);
                    onChange(slice.map((item, j) => (j === i ? index : item)));
                  }}
                />
                <output className="slider-value" data-testid={`position-${name}`}>
                  {formatPosition(position, coordinates[i])}
                  <small>{` index ${position} (0–${length - 1})`}</small>
                </output>
              </>
            ) : (
              <span className="slider-range">{formatRange(length, coordinates[i])}</span>
            )}
          </div>
        );
      })}
    </div>
  );
}

export function formatPosition(index: number, coordinates: Coordinates | null): string {
  const label = coordinates?.labels?.[index] ?? String(index);
  return coordinates?.unit ? `${label} ${coordinates.unit}` : label;
}

function formatRange(length: number, coordinates: Coordinates | null): string {
  if (length === 0) {
    return 'empty';
  }
  return `${formatPosition(0, coordinates)} … ${formatPosition(length - 1, coordinates)}`;
}
