/** JSON of the server: see python/tessarr/web/viewer/hierarchy.py. */

export type NumberType = '|u1' | '|i1' | '<u2' | '<i2' | '<u4' | '<i4' | '<f4' | '<f8';

export interface Dimension {
  name: string | null;
  length: number;
}

export interface Field {
  name: string;
  numbers: NumberType | null;
}

interface CommonNode {
  path: string;
  name: string;
  attributes: Record<string, unknown>;
  metadata: unknown;
  store: string;
  facts: [string, string][];
}

export interface ArrayNode extends CommonNode {
  kind: 'array';
  shape: number[];
  dtype: string;
  item_bytes: number;
  numbers: NumberType | null;
  /** The attributes by which plots unpack elements; tables show elements as stored. */
  packing: string[];
  is_complex: boolean;
  fields: Field[];
  chunks: number[];
  dimensions: Dimension[];
  /** Whether the array is a level of an OME-Zarr image. */
  is_image: boolean;
  /** Shapes of the resolution levels; the first one is the array itself. */
  levels: number[][];
}

export interface GroupNode extends CommonNode {
  kind: 'group';
  members: MemberNode[];
  /** Why the members could not be listed. */
  problem: string | null;
  /** The path of the full resolution of an image, if the group is one. */
  image: string | null;
}

export interface UnreadableNode {
  kind: 'unreadable';
  path: string;
  name: string;
  error: string;
  message: string;
}

export interface MemberGroup {
  kind: 'group';
  path: string;
  name: string;
}

export type MemberNode = ArrayNode | MemberGroup | UnreadableNode;
export type Node = ArrayNode | GroupNode | UnreadableNode;

/** Positions and labels along an axis. */
export interface Coordinates {
  unit: string | null;
  positions: number[] | null;
  labels: string[] | null;
}

export interface TextValues {
  shape: number[];
  columns: string[] | null;
  /** One list of texts, or one per column of records. */
  cells: string[][];
}

export type Numbers =
  | Uint8Array
  | Int8Array
  | Uint16Array
  | Int16Array
  | Uint32Array
  | Int32Array
  | Float32Array
  | Float64Array;
