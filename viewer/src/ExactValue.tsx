/** The exact text of one element, for tooltips. */
import { useEffect, useState } from 'react';

import { fetchNumbers, fetchText } from './requests';

interface Props {
  path: string;
  selection: string;
  /** Whether values differ from stored elements: the text has both. */
  isPacked: boolean;
}

/** The last text, which stays visible until the next one arrives. */
let last = { key: '', text: '…' };

export function ExactValue({ path, selection, isPacked }: Props) {
  const key = `${path}?${selection}`;
  const [, update] = useState(0);
  useEffect(() => {
    if (last.key === key) {
      return undefined;
    }
    const controller = new AbortController();
    const timer = setTimeout(() => {
      fetchExact(path, selection, isPacked, controller.signal)
        .then((text) => {
          last = { key, text };
          update((count) => count + 1);
        })
        .catch(() => undefined); // the pointer has moved on
    }, 60);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [key, path, selection, isPacked]);
  return <strong data-testid="exact-value">{last.key === key ? last.text : '…'}</strong>;
}

async function fetchExact(
  path: string,
  selection: string,
  isPacked: boolean,
  signal: AbortSignal,
): Promise<string> {
  const { cells, columns } = await fetchText(path, selection, signal);
  const text = cells.map(([word], i) => (columns ? `${columns[i]}: ${word}` : word)).join(', ');
  if (!isPacked) {
    return text;
  }
  const [value] = await fetchNumbers(path, { selection }, signal);
  const shown = Number.isNaN(value) ? 'missing' : Number(value.toPrecision(7));
  return `${shown} (stored: ${text})`;
}
