/** The state of the page in its address, so that a link shows the same node, slice and view. */
import { useCallback, useSyncExternalStore } from 'react';

/** Settings of a view by name, such as `slice=0,y,x`. */
export type Settings = Record<string, string>;

export interface Address {
  /** The path of the node, with a leading slash. */
  path: string;
  settings: Settings;
}

export function parseAddress(hash: string): Address {
  const [path, query = ''] = hash.replace(/^#/, '').split('?', 2);
  const names = path.split('/').filter(Boolean).map(decodeURIComponent);
  return {
    path: `/${names.join('/')}`,
    settings: Object.fromEntries(new URLSearchParams(query)),
  };
}

export function formatAddress({ path, settings }: Address): string {
  const names = path.split('/').map(encodeURIComponent).join('/');
  const query = new URLSearchParams(settings).toString().replaceAll('%2C', ',');
  return `#${names}${query && `?${query}`}`;
}

const listeners = new Set<() => void>();

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  window.addEventListener('hashchange', listener);
  return () => {
    listeners.delete(listener);
    window.removeEventListener('hashchange', listener);
  };
}

/** Go to an address; a change of settings replaces the entry of the history. */
export function navigate(address: Address, replace = false): void {
  const hash = formatAddress(address);
  if (replace) {
    window.history.replaceState(null, '', hash);
  } else {
    window.history.pushState(null, '', hash);
  }
  listeners.forEach((listener) => listener());
}

function getHash(): string {
  return window.location.hash;
}

export function useAddress(): Address {
  return parseAddress(useSyncExternalStore(subscribe, getHash));
}

/** Return a setting of the view, and a function that changes settings; "" removes one. */
export function useSettings(): [Settings, (changes: Settings) => void] {
  const { settings } = useAddress();
  const change = useCallback((changes: Settings) => {
    const current = parseAddress(getHash());
    const merged = { ...current.settings, ...changes };
    const kept = Object.entries(merged).filter(([, value]) => value !== '');
    navigate({ path: current.path, settings: Object.fromEntries(kept) }, true);
  }, []);
  return [settings, change];
}
