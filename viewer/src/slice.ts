/** The slice of an array that a view shows: an index or a displayed axis for each dimension. */
import type { ArrayNode } from './model';

/** For each dimension: a fixed index, or the displayed axis. */
export type Slice = (number | 'x' | 'y')[];

/** Return the slice that a setting describes, if it fits the array, or the default one. */
export function parseSlice(text: string | undefined, shape: number[], axes: 1 | 2): Slice {
  const words = text?.split(',') ?? [];
  const slice: Slice = words.map((word) => (word === 'x' || word === 'y' ? word : Number(word)));
  return isValid(slice, shape, axes) ? slice : getDefaultSlice(shape, axes);
}

function isValid(slice: Slice, shape: number[], axes: 1 | 2): boolean {
  const isInside = slice.every(
    (axis, i) =>
      typeof axis === 'string' || (Number.isInteger(axis) && axis >= 0 && axis < shape[i]),
  );
  const count = (name: string) => slice.filter((axis) => axis === name).length;
  return (
    slice.length === shape.length &&
    isInside &&
    count('x') === 1 &&
    count('y') === (axes === 2 ? 1 : 0)
  );
}

function getDefaultSlice(shape: number[], axes: 1 | 2): Slice {
  const first = shape.length - axes;
  return shape.map((length, i) => {
    if (i >= first) {
      return axes === 2 && i === first ? 'y' : 'x';
    }
    return 0;
  });
}

export function formatSlice(slice: Slice): string {
  return slice.join(',');
}

/** Return the slice with another axis displayed; the two axes swap if both are displayed. */
export function displayAxis(slice: Slice, dimension: number, axis: 'x' | 'y'): Slice {
  const old = slice[dimension];
  return slice.map((item, i) => {
    if (i === dimension) {
      return axis;
    }
    return item === axis ? old : item;
  });
}

/** Return the selection of a request: the fixed indices, and ranges of the displayed axes. */
export function formatSelection(slice: Slice, ranges: { x: string; y?: string }): string {
  return slice.map((axis) => (typeof axis === 'number' ? axis : (ranges[axis] ?? ':'))).join(',');
}

export function getDimensionName(node: ArrayNode, dimension: number): string {
  return node.dimensions[dimension].name ?? `axis ${dimension}`;
}
