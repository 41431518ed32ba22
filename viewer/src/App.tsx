/** The page: the tree, and the selected node. */
import { useEntity } from '@h5web/app';
import { type ReactNode, Suspense, useEffect, useState } from 'react';
import { ErrorBoundary } from 'react-error-boundary';

import { changeSettings, formatAddress, navigate, useAddress, useSettings } from './address';
import { ArrayView } from './ArrayView';
import { Failure } from './Failure';
import type { GroupNode } from './model';
import { Properties } from './Properties';
import type { AnyEntity, ArrayEntity, GroupEntity } from './provider';
import { formatShape, Tree } from './Tree';

export function App() {
  const { path } = useAddress();
  useEffect(() => {
    document.title = path === '/' ? 'Tessarr' : `${path.split('/').at(-1)} – Tessarr`;
  }, [path]);
  const [hasTree, setTree] = useState(true);
  return (
    <div className="page">
      <header>
        <UnlessRootIsArray>
          <button
            type="button"
            aria-label={hasTree ? 'Hide the tree' : 'Show the tree'}
            onClick={() => setTree(!hasTree)}
          >
            ☰
          </button>
        </UnlessRootIsArray>
        <Breadcrumbs path={path} />
        <CopyLink />
      </header>
      <div className="body">
        {hasTree && (
          <UnlessRootIsArray>
            <aside>
              <Tree selected={path} />
            </aside>
          </UnlessRootIsArray>
        )}
        <main>
          <ErrorBoundary FallbackComponent={Failure} resetKeys={[path]}>
            <Suspense fallback={<p className="note">Reading the node …</p>}>
              <NodeView key={path} path={path} />
            </Suspense>
          </ErrorBoundary>
        </main>
      </div>
    </div>
  );
}

/** The tree and its button; an array at the root needs neither. */
function UnlessRootIsArray({ children }: { children: ReactNode }) {
  return (
    <ErrorBoundary fallback={children}>
      <Suspense>
        <ChildrenOfGroup>{children}</ChildrenOfGroup>
      </Suspense>
    </ErrorBoundary>
  );
}

function ChildrenOfGroup({ children }: { children: ReactNode }) {
  const { node } = useEntity('/') as AnyEntity;
  return node.kind === 'array' ? null : children;
}

function Breadcrumbs({ path }: { path: string }) {
  const names = path.split('/').filter(Boolean);
  return (
    <nav aria-label="Path" className="path">
      <button type="button" onClick={() => navigate('/')}>
        /
      </button>
      {names.map((name, i) => (
        <button
          key={i}
          type="button"
          onClick={() => navigate(`/${names.slice(0, i + 1).join('/')}`)}
        >
          {i < names.length - 1 ? `${name}/` : name}
        </button>
      ))}
    </nav>
  );
}

function CopyLink() {
  const address = useAddress();
  const [isCopied, setCopied] = useState(false);
  return (
    <button
      type="button"
      onClick={() => {
        setCopied(copyText(new URL(formatAddress(address), window.location.href).href));
        setTimeout(() => setCopied(false), 1500);
      }}
    >
      {isCopied ? 'Copied' : 'Copy link'}
    </button>
  );
}

/**
 * Copy by a command: frames and pages without HTTPS have no access to `navigator.clipboard`.
 * Return whether the browser has copied the text.
 */
function copyText(text: string): boolean {
  const replace = (event: ClipboardEvent) => {
    event.clipboardData?.setData('text/plain', text);
    event.preventDefault();
  };
  // WebKit refuses the command without a selection, unless this event has no default action.
  const enable = (event: Event) => event.preventDefault();
  document.addEventListener('beforecopy', enable);
  document.addEventListener('copy', replace);
  const isCopied = document.execCommand('copy');
  document.removeEventListener('copy', replace);
  document.removeEventListener('beforecopy', enable);
  return isCopied;
}

function NodeView({ path }: { path: string }) {
  const entity = useEntity(path) as AnyEntity;
  const { tab } = useSettings('tab');
  const { node } = entity;
  if (node.kind === 'unreadable') {
    return (
      <div role="alert" className="failure">
        <h1>{node.name || node.path}</h1>
        <p>{node.message}</p>
      </div>
    );
  }
  const isProperties = tab === 'properties';
  return (
    <>
      <div className="title">
        <h1>{node.name}</h1>
        <span>
          {node.kind === 'array' ? `${formatShape(node.shape)} · ${node.dtype}` : 'group'}
        </span>
        <div role="tablist" aria-label="Tab" className="views">
          {['data', 'properties'].map((name) => (
            <button
              key={name}
              type="button"
              role="tab"
              aria-selected={isProperties === (name === 'properties')}
              onClick={() => changeSettings({ tab: name === 'data' ? '' : name })}
            >
              {name === 'data' ? 'Data' : 'Properties'}
            </button>
          ))}
        </div>
      </div>
      {isProperties ? (
        <Properties node={node} />
      ) : node.kind === 'array' ? (
        <ArrayView entity={entity as ArrayEntity} />
      ) : (
        <GroupView entity={entity as GroupEntity} />
      )}
    </>
  );
}

function GroupView({ entity }: { entity: GroupEntity }) {
  const { node } = entity;
  return (
    <>
      {node.problem && (
        <p role="alert" className="failure">
          {node.problem}
        </p>
      )}
      {node.image !== null && <ImageView path={`/${node.image}`} />}
      {node.image === null && !node.problem && <Members node={node} />}
    </>
  );
}

/** The full resolution of an image; coarser levels serve as its tiles. */
function ImageView({ path }: { path: string }) {
  const entity = useEntity(path) as AnyEntity;
  return entity.node.kind === 'array' ? (
    <ArrayView entity={entity as ArrayEntity} />
  ) : (
    <p className="note">The image has no array.</p>
  );
}

function Members({ node }: { node: GroupNode }) {
  if (node.members.length === 0) {
    return <p className="note">This group has no members.</p>;
  }
  return (
    <table aria-label="Members" className="members">
      <tbody>
        {node.members.map((member) => (
          <tr key={member.path}>
            <th scope="row">
              <button type="button" onClick={() => navigate(`/${member.path}`)}>
                {member.kind === 'group' ? `${member.name}/` : member.name}
              </button>
            </th>
            <td>{member.kind === 'array' ? formatShape(member.shape) : member.kind}</td>
            <td>{member.kind === 'array' ? member.dtype : ''}</td>
            <td>
              {member.kind === 'array' && summarize(member.attributes)}
              {member.kind === 'unreadable' && <span className="failure">{member.message}</span>}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function summarize(attributes: Record<string, unknown>): string {
  const { long_name: name, standard_name: standard, units } = attributes;
  const text = name ?? standard ?? '';
  return units ? `${text} (${units})` : String(text);
}
