import '@h5web/lib/styles.css';
import './style.css';

import { DataProvider } from '@h5web/app';
import { createRoot } from 'react-dom/client';

import { App } from './App';
import { TessarrProvider } from './provider';

const api = new TessarrProvider(document.title);

createRoot(document.querySelector('#app')!).render(
  <DataProvider api={api}>
    <App />
  </DataProvider>,
);
