/** An error in place of a view or a node. */
import { useDataContext } from '@h5web/app';
import type { FallbackProps } from 'react-error-boundary';

import { forgetErrors } from './tiles';

export function Failure({ error, resetErrorBoundary }: FallbackProps) {
  const { entitiesStore, valuesStore } = useDataContext();
  return (
    <div role="alert" className="failure">
      <p>{error instanceof Error ? error.message : String(error)}</p>
      <button
        type="button"
        onClick={() => {
          entitiesStore.evictErrors();
          valuesStore.evictErrors();
          forgetErrors();
          resetErrorBoundary();
        }}
      >
        Try again
      </button>
    </div>
  );
}
