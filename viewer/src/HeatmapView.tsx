/** A plane of numbers as a heat map: whole if it is small, else as tiles. */
import {
  ColorBar,
  type ColorMap,
  ColorMapSelector,
  type CustomDomain,
  DefaultInteractions,
  type Domain,
  DomainWidget,
  getSafeDomain,
  getVisDomain,
  HeatmapMesh,
  INTERPOLATORS,
  ResetZoomButton,
  ScaleSelector,
  ScaleType,
  Separator,
  SnapshotBtn,
  TiledHeatmapMesh,
  ToggleBtn,
  Toolbar,
  TooltipMesh,
  VisCanvas,
} from '@h5web/lib';
import ndarray, { type NdArray } from 'ndarray';
import { memo, type ReactNode, useMemo } from 'react';
import { Vector2 } from 'three';

import { changeSettings, useSettings } from './address';
import { type Axis, findIndex, getAxis, toConfig } from './axes';
import { type ColorScale, countValues, findDomain, SCALES } from './contrast';
import { ExactValue } from './ExactValue';
import type { ArrayNode, Coordinates, Numbers } from './model';
import { MAX_ELEMENTS } from './requests';
import { formatPosition } from './Sliders';
import { formatSelection, formatSlice, getDimensionName, type Slice } from './slice';
import { type Parameters, RemoteTiles, transpose } from './tiles';
import { useNumbers } from './values';

/** The longest side of a picture that all graphics drivers accept. */
const MAX_TEXTURE = 4096;

interface Props {
  node: ArrayNode;
  slice: Slice;
  parameters: Parameters;
  coordinates: (Coordinates | null)[];
}

export const HeatmapView = memo((props: Props) => {
  const { node, slice } = props;
  const [rows, columns] = [node.shape[slice.indexOf('y')], node.shape[slice.indexOf('x')]];
  const isSmall = rows * columns <= MAX_ELEMENTS && Math.max(rows, columns) <= MAX_TEXTURE;
  return isSmall && node.levels.length === 1 ? (
    <WholePlane {...props} />
  ) : (
    <TiledPlane {...props} />
  );
});

function WholePlane(props: Props) {
  const { node, slice, parameters } = props;
  const [rows, columns] = [slice.indexOf('y'), slice.indexOf('x')];
  const selection = formatSelection(slice, { x: ':', y: ':' });
  const numbers = useNumbers(node, { ...parameters, selection });
  const plane = useMemo(() => {
    const values = numbers instanceof Uint8Array ? numbers : new Float32Array(numbers);
    const [height, width] = [node.shape[rows], node.shape[columns]];
    if (rows < columns) {
      return ndarray(values, [height, width]);
    }
    return transpose(ndarray(Float32Array.from(values), [width, height]));
  }, [numbers, node, rows, columns]);
  return (
    <Plane {...props} sample={numbers}>
      {(colors) => <HeatmapMesh values={plane as NdArray<Float32Array>} {...colors} />}
    </Plane>
  );
}

function TiledPlane(props: Props) {
  const { node, slice, parameters } = props;
  const key = JSON.stringify([node.path, slice, parameters]);
  // eslint-disable-next-line react-hooks/exhaustive-deps
  const tiles = useMemo(() => new RemoteTiles(node, slice, parameters), [key]);
  const { firstLayer, layerSizes } = tiles;
  const { width, height } = layerSizes[firstLayer];
  const middle = ({ x, y }: { x: number; y: number }) =>
    new Vector2(
      Math.floor(Math.floor(width / 2) / x) * x,
      Math.floor(Math.floor(height / 2) / y) * y,
    );
  const offset = firstLayer
    ? middle({ x: tiles.tileSize.width, y: tiles.tileSize.height })
    : new Vector2();
  const sample = tiles.get(firstLayer, offset).data;
  return (
    <Plane
      {...props}
      sample={sample}
      note={firstLayer ? 'Zoom in to see values: the whole plane is too large to read.' : undefined}
    >
      {(colors) => <TiledHeatmapMesh api={tiles} {...colors} />}
    </Plane>
  );
}

interface Colors {
  domain: Domain;
  scaleType: ColorScale;
  colorMap: ColorMap;
  invertColorMap: boolean;
}

interface PlaneProps extends Props {
  /** Values for the domain and the histogram. */
  sample: Numbers;
  note?: string;
  children: (colors: Colors) => ReactNode;
}

function Plane(props: PlaneProps) {
  const { node, slice, coordinates, sample, note, children } = props;
  const settings = useSettings('scale', 'min', 'max', 'colors', 'invert', 'flip', 'aspect');
  const [rows, columns] = [slice.indexOf('y'), slice.indexOf('x')];
  const x = getAxis(node, columns, coordinates[columns]);
  const y = getAxis(node, rows, coordinates[rows]);

  const scale = (SCALES as string[]).includes(settings.scale)
    ? (settings.scale as ColorScale)
    : ScaleType.Linear;
  const dataDomain = useMemo(() => findDomain(sample, scale), [sample, scale]);
  const histogram = useMemo(() => countValues(sample, dataDomain), [sample, dataDomain]);
  const customDomain: CustomDomain = [toNumber(settings.min), toNumber(settings.max)];
  const [domain] = getSafeDomain(getVisDomain(customDomain, dataDomain), dataDomain, scale);
  const colorMap = Object.hasOwn(INTERPOLATORS, settings.colors)
    ? (settings.colors as ColorMap)
    : 'Viridis';
  const colors: Colors = {
    domain,
    scaleType: scale,
    colorMap,
    invertColorMap: settings.invert === '1',
  };
  // Rows go down, as in images, unless coordinates go up, as in maps.
  const isDown = node.is_image || y.isIndex || y.domain[0] > y.domain[1];
  const isFlipped = (settings.flip === '1') !== isDown;
  const isSquare = settings.aspect ? settings.aspect === 'equal' : isImageLike(x, y);

  return (
    <div className="plane">
      <div className="toolbar">
        <Toolbar>
          <DomainWidget
            dataDomain={dataDomain}
            customDomain={customDomain}
            scaleType={scale}
            histogram={{ ...histogram, colorMap, invertColorMap: colors.invertColorMap }}
            onCustomDomainChange={([min, max]) =>
              changeSettings({
                min: min === null ? '' : String(min),
                max: max === null ? '' : String(max),
              })
            }
          />
          <Separator />
          <ColorMapSelector
            value={colorMap}
            onValueChange={(value) => changeSettings({ colors: value === 'Viridis' ? '' : value })}
            invert={colors.invertColorMap}
            onInversionChange={() => changeSettings({ invert: colors.invertColorMap ? '' : '1' })}
          />
          <Separator />
          <ScaleSelector
            label="Scale"
            value={scale}
            options={SCALES as ColorScale[]}
            onScaleChange={(value) =>
              changeSettings({ scale: value === ScaleType.Linear ? '' : value })
            }
          />
          <ToggleBtn
            label="Square pixels"
            value={isSquare}
            onToggle={() => changeSettings({ aspect: isSquare ? 'auto' : 'equal' })}
          />
          <ToggleBtn
            label="Flip y"
            value={settings.flip === '1'}
            onToggle={() => changeSettings({ flip: settings.flip === '1' ? '' : '1' })}
          />
          <SnapshotBtn />
        </Toolbar>
      </div>
      {note && <p className="note">{note}</p>}
      <figure
        className="plane-figure"
        aria-label={`Heat map of ${node.path || node.name}`}
        data-slice={formatSlice(slice)}
        data-domain={domain.join(',')}
      >
        <VisCanvas
          aspect={isSquare ? 'equal' : 'auto'}
          abscissaConfig={toConfig(x, false)}
          ordinateConfig={toConfig(y, isFlipped)}
        >
          <DefaultInteractions />
          <ResetZoomButton />
          <TooltipMesh
            guides="both"
            renderTooltip={(px, py) => {
              const [column, row] = [findIndex(x, px), findIndex(y, py)];
              if (column === undefined || row === undefined) {
                return null;
              }
              return (
                <>
                  <span data-testid="position">
                    {`${getDimensionName(node, columns)}: `}
                    {`${formatPosition(column, coordinates[columns])}, `}
                    {`${getDimensionName(node, rows)}: ${formatPosition(row, coordinates[rows])}`}
                  </span>
                  <div>
                    <ExactValue
                      path={node.path}
                      isPacked={node.packing.length > 0}
                      selection={slice
                        .map((axis) => (axis === 'x' ? column : axis === 'y' ? row : axis))
                        .join(',')}
                    />
                  </div>
                </>
              );
            }}
          />
          <ShaderKeeper scaleType={scale} />
          <group scale={[1, isFlipped ? -1 : 1, 1]}>{children(colors)}</group>
        </VisCanvas>
        <ColorBar {...colors} withBounds />
      </figure>
    </div>
  );
}

const ONE_VALUE = ndarray(new Float32Array(1), [1, 1]);
const UNIT_DOMAIN: Domain = [0, 1];

/**
 * A picture of size 0 that keeps the compiled shader. h5web creates another material for each slice,
 * and three deletes a shader with its last material.
 */
const ShaderKeeper = memo(({ scaleType }: { scaleType: ColorScale }) => (
  <group scale={0}>
    <HeatmapMesh values={ONE_VALUE} domain={UNIT_DOMAIN} scaleType={scaleType} colorMap="Viridis" />
  </group>
));

/** Pixels of images are square; axes of other units are not comparable. */
function isImageLike(x: Axis, y: Axis): boolean {
  const ratio = x.length / y.length;
  const unit = ({ label }: Axis) => /\((.*)\)$/.exec(label)?.[1];
  return ratio < 20 && ratio > 0.05 && x.isIndex === y.isIndex && unit(x) === unit(y);
}

function toNumber(text: string | undefined): number | null {
  return text === undefined || Number.isNaN(Number(text)) ? null : Number(text);
}
