/** Requests to the server of the page. Addresses are relative: the page's own contains the token. */
import type { Coordinates, Node, Numbers, NumberType, TextValues } from './model';

/** The largest number of elements of one response. */
export const MAX_ELEMENTS = 1 << 20;

const ARRAYS: Record<NumberType, new (buffer: ArrayBuffer) => Numbers> = {
  '|u1': Uint8Array,
  '|i1': Int8Array,
  '<u2': Uint16Array,
  '<i2': Int16Array,
  '<u4': Uint32Array,
  '<i4': Int32Array,
  '<f4': Float32Array,
  '<f8': Float64Array,
};

async function request(
  kind: string,
  parameters: Record<string, string>,
  signal?: AbortSignal,
): Promise<Response> {
  const query = new URLSearchParams(parameters).toString();
  let response: Response;
  try {
    response = await fetch(`api/${kind}?${query}`, { signal });
  } catch (error) {
    if (signal?.aborted) {
      throw error;
    }
    throw new Error('The server does not answer. Is `tessarr view` still running?');
  }
  if (!response.ok) {
    const text = await response.text();
    let message = text;
    try {
      message = JSON.parse(text).message;
    } catch {
      // a refusal is plain text
    }
    throw new Error(message);
  }
  return response;
}

export async function fetchNode(path: string): Promise<Node> {
  return (await request('node', { path })).json();
}

export async function fetchCoordinates(path: string): Promise<(Coordinates | null)[]> {
  return (await request('coordinates', { path })).json();
}

export async function fetchText(
  path: string,
  selection: string,
  signal?: AbortSignal,
): Promise<TextValues> {
  return (await request('text', { path, selection }, signal)).json();
}

export async function fetchNumbers(
  path: string,
  parameters: Record<string, string>,
  signal?: AbortSignal,
): Promise<Numbers> {
  const response = await request('values', { path, ...parameters }, signal);
  const type = response.headers.get('Tessarr-Dtype') as NumberType;
  return new ARRAYS[type](await response.arrayBuffer());
}
