/** The exact text of one element, for tooltips. */
import { useEffect, useState } from 'react';

import { fetchText } from './requests';

interface Props {
  path: string;
  selection: string;
}

/** The last text, which stays visible until the next one arrives. */
let last = { key: '', text: '…' };

export function ExactValue({ path, selection }: Props) {
  const key = `${path}?${selection}`;
  const [, update] = useState(0);
  useEffect(() => {
    if (last.key === key) {
      return undefined;
    }
    const controller = new AbortController();
    const timer = setTimeout(() => {
      fetchText(path, selection, controller.signal)
        .then(({ cells, columns }) => {
          const words = cells.map(([word], i) => (columns ? `${columns[i]}: ${word}` : word));
          last = { key, text: words.join(', ') };
          update((count) => count + 1);
        })
        .catch(() => undefined); // the pointer has moved on
    }, 60);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [key, path, selection]);
  return <strong data-testid="exact-value">{last.key === key ? last.text : '…'}</strong>;
}
