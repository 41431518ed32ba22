/** Values of arrays for components, through h5web's store of values. */
import { useDataContext, type ValuesStore, type ValuesStoreParams } from '@h5web/app';
import { createContext, useContext, useMemo } from 'react';

import type { ArrayNode, Numbers } from './model';
import type { ArrayEntity } from './provider';

/** The number of slices that stay in the store. */
const MAX_VALUES = 24;

export const EntityContext = createContext<ArrayEntity | null>(null);

/** Requests whose results are in the store, the oldest first. */
const order: { store: ValuesStore; params: ValuesStoreParams; key: string }[] = [];

function remember(store: ValuesStore, params: ValuesStoreParams): void {
  const key = `${params.dataset.path}?${params.selection ?? ''}`;
  const position = order.findIndex((item) => item.store === store && item.key === key);
  if (position >= 0) {
    order.splice(position, 1);
  }
  order.push({ store, params, key });
  while (order.length > MAX_VALUES) {
    const oldest = order.shift()!;
    oldest.store.evict(oldest.params);
  }
}

/** Stop requests for other slices: a moving slider has passed them. */
function stopOthers(store: ValuesStore, params: ValuesStoreParams): void {
  for (const other of store.progressStore.getState().ongoing.keys()) {
    if (other.dataset.path !== params.dataset.path || other.selection !== params.selection) {
      store.abort(other, 'another slice is shown', true);
    }
  }
}

/** Return the numbers of a request; suspends until they arrive. */
export function useNumbers(node: ArrayNode, parameters: Record<string, string>): Numbers {
  const { valuesStore } = useDataContext();
  const entity = useContext(EntityContext)!;
  const selection = new URLSearchParams(parameters).toString();
  const params = useMemo(
    () => ({ dataset: entity as ValuesStoreParams['dataset'], selection }),
    [entity, selection],
  );
  remember(valuesStore, params);
  stopOthers(valuesStore, params);
  return valuesStore.get(params) as Numbers;
}
