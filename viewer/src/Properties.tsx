/** Facts, attributes and the metadata document of a node. */
import type { ArrayNode, GroupNode } from './model';

export function Properties({ node }: { node: ArrayNode | GroupNode }) {
  const attributes = Object.entries(node.attributes);
  return (
    <div className="properties">
      <h2>Attributes</h2>
      {attributes.length === 0 && <p className="note">There are no attributes.</p>}
      <table aria-label="Attributes">
        <tbody>
          {attributes.map(([name, value]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td>
                <Value value={value} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <h2>Properties</h2>
      <table aria-label="Properties">
        <tbody>
          {node.facts.map(([label, text], i) => (
            <tr key={i}>
              <th scope="row">{label}</th>
              <td>{text}</td>
            </tr>
          ))}
          <tr>
            <th scope="row">Store</th>
            <td>{node.store}</td>
          </tr>
        </tbody>
      </table>
      <h2>Metadata document</h2>
      <pre>{JSON.stringify(node.metadata, null, 2)}</pre>
    </div>
  );
}

function Value({ value }: { value: unknown }) {
  if (value === null || typeof value !== 'object') {
    return <>{String(value)}</>;
  }
  const text = JSON.stringify(value);
  if (text.length <= 80) {
    return <code>{text}</code>;
  }
  return (
    <details open={text.length < 400}>
      <summary>{`${text.slice(0, 60)} …`}</summary>
      <pre>{JSON.stringify(value, null, 2)}</pre>
    </details>
  );
}
