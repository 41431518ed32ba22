/** Elements as text in a table. Blocks are requested when they become visible. */
import { MatrixVis, ScalarVis } from '@h5web/lib';
import { useCallback, useEffect, useMemo, useRef, useState } from 'react';

import type { ArrayNode, TextValues } from './model';
import { fetchText } from './requests';
import { formatSlice, type Slice } from './slice';

const BLOCK = { rows: 128, columns: 64 };
/** Browsers limit the height of a page. */
const MAX_ROWS = 500_000;

interface Props {
  node: ArrayNode;
  slice: Slice;
}

export function TableView({ node, slice }: Props) {
  const columnAxis = slice.indexOf('y') >= 0 ? slice.indexOf('x') : -1;
  const rowAxis = columnAxis >= 0 ? slice.indexOf('y') : slice.indexOf('x');
  const fields = columnAxis < 0 && node.fields.length > 0 ? node.fields : null;
  const rows = Math.min(node.shape[rowAxis], MAX_ROWS);
  const columns = columnAxis >= 0 ? node.shape[columnAxis] : (fields?.length ?? 1);
  const headers = fields?.map(({ name }) => name);
  const { getCell, longest } = useBlocks(node, slice, rowAxis, columnAxis);
  return (
    <div className="table" data-slice={formatSlice(slice)} data-testid="table">
      {node.shape[rowAxis] > rows && (
        <p className="note">{`The table shows the first ${rows} rows.`}</p>
      )}
      <MatrixVis
        className="table-grid"
        dims={[rows, columns]}
        cellFormatter={getCell}
        cellWidth={Math.min(Math.max(longest * 8 + 24, 80), 480)}
        columnHeaders={headers}
      />
    </div>
  );
}

function useBlocks(node: ArrayNode, slice: Slice, rowAxis: number, columnAxis: number) {
  const key = `${node.path}?${slice.join(',')}`;
  const blocks = useRef(new Map<string, TextValues | string>());
  const [version, setVersion] = useState(0);
  const [longest, setLongest] = useState(0);
  const isActive = useRef(true);
  useEffect(() => {
    isActive.current = true;
    return () => {
      isActive.current = false;
    };
  }, []);
  useMemo(() => blocks.current.clear(), [key]);

  const load = useCallback(
    (row: number, column: number, id: string) => {
      const range = (start: number, count: number, length: number) =>
        `${start}:${Math.min(start + count, length)}`;
      const selection = slice
        .map((axis, i) => {
          if (i === rowAxis) {
            return range(row * BLOCK.rows, BLOCK.rows, node.shape[i]);
          }
          return i === columnAxis
            ? range(column * BLOCK.columns, BLOCK.columns, node.shape[i])
            : axis;
        })
        .join(',');
      const finish = (result: TextValues | string) => {
        if (isActive.current) {
          blocks.current.set(`${key}|${id}`, result);
          setVersion((count) => count + 1);
          if (typeof result !== 'string') {
            const width = Math.max(...result.cells.flat().map((cell) => cell.length), 0);
            setLongest((old) => Math.max(old, width));
          }
        }
      };
      blocks.current.set(`${key}|${id}`, '…');
      fetchText(node.path, selection).then(finish, (error: Error) => finish(error.message));
    },
    [key, node, slice, rowAxis, columnAxis],
  );

  const getCell = useCallback(
    (row: number, column: number): string => {
      const isTable = columnAxis >= 0;
      const blockRow = Math.floor(row / BLOCK.rows);
      const blockColumn = isTable ? Math.floor(column / BLOCK.columns) : 0;
      const id = `${blockRow},${blockColumn}`;
      const block = blocks.current.get(`${key}|${id}`);
      if (block === undefined) {
        queueMicrotask(() => {
          if (!blocks.current.has(`${key}|${id}`)) {
            load(blockRow, blockColumn, id);
          }
        });
        return '…';
      }
      if (typeof block === 'string') {
        return block;
      }
      const r = row - blockRow * BLOCK.rows;
      if (!isTable) {
        return block.cells[block.columns ? column : 0][r];
      }
      const c = column - blockColumn * BLOCK.columns;
      const [height, width] = block.shape;
      const position = columnAxis > rowAxis ? r * width + c : c * width + r;
      return height * width > 0 ? block.cells.map((cells) => cells[position]).join(', ') : '';
    },
    // A new function makes the table show blocks that have arrived.
    // eslint-disable-next-line react-hooks/exhaustive-deps
    [key, load, rowAxis, columnAxis, version],
  );
  return { getCell, longest };
}

/** The text of an array with a single element. */
export function ScalarView({ node }: { node: ArrayNode }) {
  const [text, setText] = useState('…');
  useEffect(() => {
    fetchText(node.path, '').then(
      ({ cells, columns }) =>
        setText(cells.map(([word], i) => (columns ? `${columns[i]}: ${word}` : word)).join('\n')),
      (error: Error) => setText(error.message),
    );
  }, [node]);
  return (
    <div data-testid="scalar">
      <ScalarVis value={text} />
    </div>
  );
}
