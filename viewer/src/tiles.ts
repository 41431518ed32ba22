/** Tiles of a large plane, at resolutions that halve from layer to layer. */
import { type Size, TilesApi } from '@h5web/lib';
import ndarray, { type NdArray } from 'ndarray';
import type { Vector2 } from 'three';

import type { ArrayNode, Numbers } from './model';
import { fetchNumbers } from './requests';
import { formatSelection, type Slice } from './slice';

const TILE_SIZE: Size = { width: 512, height: 512 };
/** Planes up to this size are read whole on the server; beyond it, tiles must be cheap. */
const MAX_PLANE_BYTES = 2 ** 31;
const MAX_TILE_BYTES = 2 ** 28;
const MAX_CACHED_TILES = 192;

type Tile = NdArray<Float32Array>;

/** Tiles of all planes by request, the oldest first. */
const cache = new Map<string, Tile | Promise<void> | Error>();

/** Requests under way, with the plane that needs them. */
const pending = new Map<AbortController, string>();

/** Stop requests for other planes: a moving slider has passed them. */
function stopOthers(plane: string): void {
  for (const [controller, own] of pending) {
    if (own !== plane) {
      pending.delete(controller);
      controller.abort();
    }
  }
}

/** Parameters of requests beside the selection. */
export type Parameters = Record<string, string>;

export class RemoteTiles extends TilesApi {
  private readonly rows: number;
  private readonly columns: number;
  private readonly isTransposed: boolean;
  /** The distances of the elements of each layer. */
  private readonly steps: Size[];
  private readonly plane: string;

  public constructor(
    private readonly node: ArrayNode,
    private readonly slice: Slice,
    private readonly parameters: Parameters,
  ) {
    const rows = slice.indexOf('y');
    const columns = slice.indexOf('x');
    const base = { width: node.shape[columns], height: node.shape[rows] };
    const steps = listSteps(base);
    super(
      TILE_SIZE,
      steps.map((step) => ({
        width: Math.ceil(base.width / step.width),
        height: Math.ceil(base.height / step.height),
      })),
    );
    this.steps = steps;
    this.rows = rows;
    this.columns = columns;
    this.isTransposed = columns < rows;
    this.plane = JSON.stringify([node.path, slice, parameters]);
  }

  /** The index of the coarsest layer whose tiles are cheap enough to read. */
  public get firstLayer(): number {
    return this.layerSizes.findIndex((_, layer) => this.isCheap(layer));
  }

  private isCheap(layer: number): boolean {
    const step = this.steps[layer];
    const { rows, columns, node } = this;
    // The server reads the coarsest level that has an element for each step.
    const scales = node.levels.map((shape) => ({
      width: node.shape[columns] / shape[columns],
      height: node.shape[rows] / shape[rows],
    }));
    const { width, height } = scales.findLast(
      (scale) => scale.width <= step.width * 1.01 && scale.height <= step.height * 1.01,
    )!;
    const base = this.baseLayerSize;
    const planeBytes = (base.width / width) * (base.height / height) * node.item_bytes;
    const tileWidth = Math.min((TILE_SIZE.width * step.width) / width, base.width / width);
    const tileHeight = Math.min((TILE_SIZE.height * step.height) / height, base.height / height);
    return (
      planeBytes <= MAX_PLANE_BYTES || tileWidth * tileHeight * node.item_bytes <= MAX_TILE_BYTES
    );
  }

  /** Return a tile, or throw the promise of it, for Suspense. */
  public get(layer: number, offset: Vector2): Tile {
    const { width, height } = this.layerSizes[layer];
    const tileWidth = Math.min(TILE_SIZE.width, width - offset.x);
    const tileHeight = Math.min(TILE_SIZE.height, height - offset.y);
    if (!this.isCheap(layer)) {
      const empty = new Float32Array(tileWidth * tileHeight).fill(Number.NaN);
      return ndarray(empty, [tileHeight, tileWidth]);
    }
    const step = this.steps[layer];
    const range = (start: number, count: number, distance: number, length: number) =>
      `${start * distance}:${Math.min((start + count) * distance, length)}:${distance}`;
    const selection = formatSelection(this.slice, {
      x: range(offset.x, tileWidth, step.width, this.baseLayerSize.width),
      y: range(offset.y, tileHeight, step.height, this.baseLayerSize.height),
    });
    return this.read(selection, tileHeight, tileWidth);
  }

  private read(selection: string, height: number, width: number): Tile {
    const parameters: Parameters = { ...this.parameters, selection, levels: '1' };
    const key = `${this.node.path}?${new URLSearchParams(parameters).toString()}`;
    const known = cache.get(key);
    if (known instanceof Promise || known instanceof Error) {
      throw known;
    }
    if (known) {
      cache.delete(key); // the newest one now
      cache.set(key, known);
      return known;
    }
    const controller = new AbortController();
    stopOthers(this.plane);
    pending.set(controller, this.plane);
    const promise = fetchNumbers(this.node.path, parameters, controller.signal)
      .then((numbers) => this.toTile(numbers, height, width))
      .catch((error: Error) => error)
      .then((result) => {
        pending.delete(controller);
        if (controller.signal.aborted) {
          cache.delete(key);
          return new Promise<void>(() => undefined); // no component waits for it any more
        }
        cache.set(key, result);
        dropOldTiles();
        return undefined;
      });
    cache.set(key, promise);
    throw promise;
  }

  private toTile(numbers: Numbers, height: number, width: number): Tile {
    const values = new Float32Array(numbers);
    return this.isTransposed
      ? transpose(ndarray(values, [width, height]))
      : ndarray(values, [height, width]);
  }
}

/** Return the steps of each layer, the coarsest first: axes halve until they fit into a tile. */
function listSteps(base: Size): Size[] {
  const steps = [{ width: 1, height: 1 }];
  for (;;) {
    const { width, height } = steps[0];
    const isWide = Math.ceil(base.width / width) > TILE_SIZE.width;
    const isHigh = Math.ceil(base.height / height) > TILE_SIZE.height;
    if (!isWide && !isHigh) {
      return steps;
    }
    steps.unshift({ width: isWide ? width * 2 : width, height: isHigh ? height * 2 : height });
  }
}

/** Forget failed requests, so that the next picture sends them again. */
export function forgetErrors(): void {
  for (const [key, tile] of cache) {
    if (tile instanceof Error) {
      cache.delete(key);
    }
  }
}

function dropOldTiles(): void {
  for (const [key, tile] of cache) {
    if (cache.size <= MAX_CACHED_TILES) {
      return;
    }
    if (!(tile instanceof Promise)) {
      cache.delete(key);
    }
  }
}

/** Return a transposed copy. */
export function transpose(array: Tile): Tile {
  const [rows, columns] = array.shape;
  const values = new Float32Array(rows * columns);
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      values[column * rows + row] = array.data[row * columns + column];
    }
  }
  return ndarray(values, [columns, rows]);
}
