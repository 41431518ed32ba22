/** The hierarchy as a tree; groups are read when they are unfolded. */
import { useEntity } from '@h5web/app';
import { Suspense, useState } from 'react';
import { ErrorBoundary } from 'react-error-boundary';

import { navigate } from './address';
import type { AnyEntity, ArrayEntity, GroupEntity } from './provider';

interface Props {
  selected: string;
}

export function Tree({ selected }: Props) {
  return (
    <nav aria-label="Hierarchy">
      <ul role="tree" className="tree">
        <Item path="/" selected={selected} />
      </ul>
    </nav>
  );
}

function Item({ path, selected }: { path: string; selected: string }) {
  return (
    <ErrorBoundary
      fallbackRender={({ error }) => (
        <Row
          path={path}
          selected={selected}
          kind="unreadable"
          detail={error instanceof Error ? error.message : String(error)}
        />
      )}
    >
      <Suspense fallback={<Row path={path} selected={selected} kind="group" detail="…" />}>
        <LoadedItem path={path} selected={selected} />
      </Suspense>
    </ErrorBoundary>
  );
}

function LoadedItem({ path, selected }: { path: string; selected: string }) {
  const entity = useEntity(path) as AnyEntity;
  const { node } = entity;
  const isAbove = selected.startsWith(path === '/' ? '/' : `${path}/`);
  const [isOpen, setOpen] = useState(isAbove);
  const [previous, setPrevious] = useState(selected);
  if (previous !== selected) {
    setPrevious(selected);
    setOpen(isOpen || (isAbove && selected !== path));
  }
  if (node.kind !== 'group') {
    return <Leaf entity={entity} selected={selected} />;
  }
  const { children } = entity as GroupEntity;
  return (
    <Row
      path={path}
      name={node.name}
      selected={selected}
      kind={node.image ? 'image' : 'group'}
      isOpen={isOpen}
      onToggle={() => setOpen(!isOpen)}
    >
      {isOpen && (
        <ul role="group">
          {children.map((child) =>
            child.kind === 'group' ? (
              <ClosedGroup key={child.path} path={child.path} selected={selected} />
            ) : (
              <Leaf key={child.path} entity={child as AnyEntity} selected={selected} />
            ),
          )}
          {node.problem && <li className="failure">{node.problem}</li>}
        </ul>
      )}
    </Row>
  );
}

/** A group that is not read before it is unfolded. */
function ClosedGroup({ path, selected }: { path: string; selected: string }) {
  const isSelected = selected === path || selected.startsWith(`${path}/`);
  const [wasOpened, setOpened] = useState(isSelected);
  if (isSelected && !wasOpened) {
    setOpened(true);
  }
  if (wasOpened) {
    return <Item path={path} selected={selected} />;
  }
  return (
    <Row
      path={path}
      selected={selected}
      kind="group"
      isOpen={false}
      onToggle={() => setOpened(true)}
    />
  );
}

function Leaf({ entity, selected }: { entity: AnyEntity; selected: string }) {
  const { node } = entity;
  const detail =
    node.kind === 'unreadable'
      ? node.message
      : `${formatShape((entity as ArrayEntity).node.shape)} ${(node as { dtype?: string }).dtype}`;
  return (
    <Row
      path={entity.path}
      name={entity.name}
      selected={selected}
      kind={node.kind}
      detail={detail}
    />
  );
}

export function formatShape(shape: number[]): string {
  return shape.length === 0 ? 'scalar' : shape.join(' × ');
}

interface RowProps {
  path: string;
  name?: string;
  selected: string;
  kind: string;
  detail?: string;
  isOpen?: boolean;
  onToggle?: () => void;
  children?: React.ReactNode;
}

function Row(props: RowProps) {
  const { path, selected, kind, detail, isOpen, onToggle, children } = props;
  const name = props.name ?? path.split('/').at(-1);
  return (
    <li role="treeitem" aria-selected={selected === path} aria-expanded={isOpen}>
      <div className={`row ${selected === path ? 'row-selected' : ''}`}>
        {onToggle ? (
          <button
            type="button"
            className="fold"
            aria-label={`${isOpen ? 'Fold' : 'Unfold'} ${name}`}
            onClick={onToggle}
          >
            {isOpen ? '▾' : '▸'}
          </button>
        ) : (
          <span className="fold" />
        )}
        <button
          type="button"
          className={`node node-${kind}`}
          title={detail}
          onClick={() => navigate(path)}
        >
          <bdi>{name}</bdi>
          {detail && <small>{detail}</small>}
        </button>
      </div>
      {children}
    </li>
  );
}
