/** The scale of a displayed axis: coordinates if they are evenly spaced, else indices. */
import type { AxisConfig, Domain } from '@h5web/lib';

import type { ArrayNode, Coordinates } from './model';
import { getDimensionName } from './slice';

export interface Axis {
  label: string;
  /** The positions at the outer edges of the first and the last element. */
  domain: Domain;
  isIndex: boolean;
  length: number;
}

export function getAxis(
  node: ArrayNode,
  dimension: number,
  coordinates: Coordinates | null | undefined,
): Axis {
  const length = node.shape[dimension];
  const name = getDimensionName(node, dimension);
  const positions = coordinates?.positions;
  if (positions && isEven(positions)) {
    const step = (positions[length - 1] - positions[0]) / (length - 1);
    const domain: Domain = [positions[0] - step / 2, positions[length - 1] + step / 2];
    const label = coordinates.unit ? `${name} (${coordinates.unit})` : name;
    return { label, domain, isIndex: false, length };
  }
  return { label: name, domain: [0, length], isIndex: true, length };
}

function isEven(positions: number[]): boolean {
  const count = positions.length;
  const step = (positions[count - 1] - positions[0]) / (count - 1);
  return (
    count > 1 &&
    step !== 0 &&
    positions.every(
      (position, i) => Math.abs(position - positions[0] - i * step) < Math.abs(step) / 50,
    )
  );
}

/** Return the index of the element at a position, or undefined outside of the axis. */
export function findIndex({ domain, length }: Axis, position: number): number | undefined {
  const index = Math.floor(((position - domain[0]) / (domain[1] - domain[0])) * length);
  return index >= 0 && index < length ? index : undefined;
}

export function toConfig({ label, domain, isIndex }: Axis, flip: boolean): AxisConfig {
  // h5web expects ascending domains; a flip shows them the other way round.
  const isDescending = domain[0] > domain[1];
  const visDomain: Domain = isDescending ? [domain[1], domain[0]] : domain;
  return { visDomain, isIndexAxis: isIndex, label, flip: flip !== isDescending, showGrid: false };
}
