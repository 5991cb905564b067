// Where pixels lie on the Earth, from the ring of the window that the cube's record has: the same number of points on each
// side, the left one first, downwards. Between them by Coons' patch, which is better than a thousandth of a window's side.
const METRES_PER_DEGREE = 111_195;
const WIDE = 0.3; // share of the stage that a scale bar may take

export function earthOf({ attributes, width, height }) {
  let ring;
  try {
    ring = attributes.pixel_gather_window ?? JSON.parse(attributes.pixel_gather).footprints.window; // the first is of joined cubes
  } catch {
    return null;
  }
  const n = ring.length / 4;
  if (n === 1 || !Number.isInteger(n) || !attributes["spatial:transform"]) return null; // four points are a box around a pole or the Earth
  const side = (from, isBack) => {
    const points = Array.from({ length: n + 1 }, (_, index) => ring[(from + index) % ring.length]);
    return isBack ? points.reverse() : points;
  };
  const [left, bottom, right, top] = [side(0), side(n), side(2 * n, true), side(3 * n, true)];
  const along = (points, share) => {
    const place = Math.min(Math.max(share * n, 0), n);
    const index = Math.min(Math.floor(place), n - 1);
    return [0, 1].map((axis) => points[index][axis] + (points[index + 1][axis] - points[index][axis]) * (place - index));
  };
  // Longitude and latitude of a place in pixels.
  const at = (x, y) => {
    const [u, v] = [x / width, y / height];
    const [west, east, north, south] = [along(left, v), along(right, v), along(top, u), along(bottom, u)];
    return [0, 1].map((axis) => (1 - u) * west[axis] + u * east[axis] + (1 - v) * north[axis] + v * south[axis]
      - (1 - u) * (1 - v) * left[0][axis] - u * (1 - v) * right[0][axis] - (1 - u) * v * left[n][axis] - u * v * right[n][axis]);
  };
  const middle = at(width / 2, height / 2);
  const shrinks = Math.cos((middle[1] * Math.PI) / 180);
  const step = (one, other) => [(other[0] - one[0]) * shrinks * METRES_PER_DEGREE, (other[1] - one[1]) * METRES_PER_DEGREE];
  const across = step(at(0, height / 2), at(width, height / 2)).map((each) => each / width);
  const down = step(at(width / 2, 0), at(width / 2, height)).map((each) => each / height);
  const determinant = across[0] * down[1] - across[1] * down[0];
  return {
    at,
    metresPerPixel: Math.hypot(...across),
    north: (Math.atan2(-down[0] / determinant, -across[0] / determinant) * 180) / Math.PI, // clockwise from above
  };
}

// A round length that fits beside the picture, as text and in CSS pixels.
export function scaleBar(metresPerCssPixel, stageWidth) {
  const most = metresPerCssPixel * stageWidth * WIDE;
  const power = 10 ** Math.floor(Math.log10(most));
  const metres = [5, 2, 1].map((each) => each * power).find((each) => each <= most) ?? power;
  return { width: metres / metresPerCssPixel, text: metres >= 1000 ? `${metres / 1000} km` : metres >= 1 ? `${metres} m` : `${Number((metres * 100).toPrecision(2))} cm` };
}
