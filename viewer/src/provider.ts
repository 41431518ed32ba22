/** The data provider of h5web, on the server of Tessarr. */
import {
  type AttributeValues,
  type ChildEntity,
  DataProviderApi,
  type Dataset,
  type DType,
  DTypeClass,
  type Entity,
  EntityKind,
  type GroupWithChildren,
  parseShape,
  type ProvidedEntity,
  type UnresolvedEntity,
  type ValuesStoreParams,
} from '@h5web/app';

import type { ArrayNode, GroupNode, MemberNode, Node, UnreadableNode } from './model';
import { fetchNode, fetchNumbers, fetchText } from './requests';

/** An array: an entity of h5web with the description of the server. */
export type ArrayEntity = Dataset & { node: ArrayNode };
export type GroupEntity = GroupWithChildren & { node: GroupNode };
export type UnreadableEntity = UnresolvedEntity & { node: UnreadableNode };
export type AnyEntity = ArrayEntity | GroupEntity | UnreadableEntity;

export class TessarrProvider extends DataProviderApi {
  public async getEntity(path: string): Promise<ProvidedEntity> {
    return toEntity(await fetchNode(path.slice(1)));
  }

  /**
   * Return numbers, or text if the selection starts with "text:".
   *
   * A selection is the query of a request, such as `selection=0,:,:&part=abs`.
   */
  public async getValue(params: ValuesStoreParams, signal?: AbortSignal): Promise<unknown> {
    const path = params.dataset.path.slice(1);
    const selection = params.selection ?? '';
    if (selection.startsWith('text:')) {
      return fetchText(path, selection.slice(5), signal);
    }
    return fetchNumbers(path, Object.fromEntries(new URLSearchParams(selection)), signal);
  }

  public async getAttrValues(entity: Entity): Promise<AttributeValues> {
    const { node } = entity as AnyEntity;
    return node.kind === 'unreadable' ? {} : node.attributes;
  }
}

function toEntity(node: Node): ProvidedEntity {
  if (node.kind !== 'group') {
    return toChild(node) as ProvidedEntity;
  }
  const entity: GroupEntity = {
    ...describe(node),
    kind: EntityKind.Group,
    children: node.members.map(toChild),
    node,
  };
  return entity;
}

function toChild(node: MemberNode): ChildEntity {
  if (node.kind === 'group') {
    return { ...describe({ ...node, attributes: {} }), kind: EntityKind.Group };
  }
  if (node.kind === 'unreadable') {
    const entity: UnreadableEntity = {
      ...describe({ ...node, attributes: {} }),
      kind: EntityKind.Unresolved,
      node,
    };
    return entity;
  }
  const entity: ArrayEntity = {
    ...describe(node),
    kind: EntityKind.Dataset,
    shape: parseShape(node.shape),
    type: toType(node),
    rawType: node.dtype,
    chunks: node.chunks,
    node,
  };
  return entity;
}

function describe(node: { path: string; name: string; attributes: Record<string, unknown> }) {
  const attributes = Object.keys(node.attributes).map((name) => ({
    name,
    shape: parseShape([]),
    type: { class: DTypeClass.Unknown } as DType,
  }));
  return { name: node.name, path: `/${node.path}`, attributes };
}

function toType(node: ArrayNode): DType {
  if (node.numbers === null || node.is_complex) {
    return { class: DTypeClass.Unknown };
  }
  const size = Number(node.numbers.slice(2)) * 8;
  if (node.numbers[1] === 'f') {
    return { class: DTypeClass.Float, size, endianness: undefined };
  }
  const signed = node.numbers[1] === 'i';
  return { class: DTypeClass.Integer, signed, size, endianness: undefined };
}
