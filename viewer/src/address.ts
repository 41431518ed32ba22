/** The state of the page in its address, so that a link shows the same node, slice and view. */
import { useMemo, useSyncExternalStore } from 'react';

/** Settings of a view by name, such as `slice=0,y,x`. */
export type Settings = Record<string, string>;

export interface Address {
  /** The path of the node, with a leading slash. */
  path: string;
  settings: Settings;
}

export function parseAddress(hash: string): Address {
  const [path, query = ''] = hash.replace(/^#/, '').split('?', 2);
  const names = path.split('/').filter(Boolean).map(decodeName);
  return {
    path: `/${names.join('/')}`,
    settings: Object.fromEntries(new URLSearchParams(query)),
  };
}

/** Return the name that a link contains; a damaged link names a node that is absent. */
function decodeName(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function formatAddress({ path, settings }: Address): string {
  const names = path.split('/').map(encodeURIComponent).join('/');
  const query = new URLSearchParams(settings).toString().replaceAll('%2C', ',');
  return `#${names}${query && `?${query}`}`;
}

/** Browsers ignore frequent changes of the address, so it follows the state with a delay. */
const DELAY_MS = 200;

const listeners = new Set<() => void>();
let current = parseAddress(window.location.hash);
let timer: ReturnType<typeof setTimeout> | undefined;

window.addEventListener('hashchange', () => {
  clearTimeout(timer);
  setAddress(parseAddress(window.location.hash));
});

function setAddress(address: Address): void {
  current = address;
  listeners.forEach((listener) => listener());
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Go to another node. */
export function navigate(path: string): void {
  clearTimeout(timer);
  const address = { path, settings: {} };
  window.history.pushState(null, '', formatAddress(address));
  setAddress(address);
}

/** Change settings of the view; "" removes one. */
export function changeSettings(changes: Settings): void {
  const merged = Object.entries({ ...current.settings, ...changes });
  const settings = Object.fromEntries(merged.filter(([, value]) => value !== ''));
  setAddress({ path: current.path, settings });
  clearTimeout(timer);
  timer = setTimeout(() => {
    window.history.replaceState(null, '', formatAddress(current));
  }, DELAY_MS);
}

export function useAddress(): Address {
  return useSyncExternalStore(subscribe, () => current);
}

/** Return some settings; a change of another one does not draw the component again. */
export function useSettings(...names: string[]): Settings {
  const text = useSyncExternalStore(subscribe, () =>
    JSON.stringify(Object.fromEntries(names.map((name) => [name, current.settings[name]]))),
  );
  return useMemo(() => JSON.parse(text), [text]);
}
