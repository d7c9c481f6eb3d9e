// Taxi trips like those of the server plug-in's measurement: about 650 bytes with their action lines.

const KEYWORDS = ['vendor', 'rate', 'payment', 'stored', 'medallion', 'driver', 'pickup_zone', 'dropoff_zone'];
const AMOUNTS = ['fare', 'extra', 'tax', 'tip', 'tolls', 'surcharge', 'total', 'distance'];

export const mapping = Object.assign(
  {
    pickup_time: { type: 'date' },
    dropoff_time: { type: 'date' },
    pickup_location: { type: 'geo_point' },
    dropoff_location: { type: 'geo_point' },
    passengers: { type: 'integer' },
    remark: { type: 'keyword', index: false, doc_values: false },
  },
  ...KEYWORDS.map((name) => ({ [name]: { type: 'keyword' } })),
  ...AMOUNTS.map((name) => ({ [name]: { type: 'float' } })),
);

const FIRST_DAY = Date.UTC(2026, 0, 1);
const DOCUMENT_BYTES = 595;

// Returns the trip with this number, as JSON text.
export function trip(random, number) {
  const pickup = FIRST_DAY + number * 1000;
  const [fare, tip] = [3 + random.below(6000) / 100, random.below(1500) / 100];
  const fields = {
    vendor: random.oneOf(['CMT', 'VTS', 'DDS']),
    pickup_time: new Date(pickup).toISOString(),
    dropoff_time: new Date(pickup + 1000 * (60 + random.below(3600))).toISOString(),
    passengers: 1 + random.below(6),
    distance: random.below(3000) / 100,
    pickup_location: location(random),
    dropoff_location: location(random),
    pickup_zone: `zone-${random.below(265)}`,
    dropoff_zone: `zone-${random.below(265)}`,
    rate: String(1 + random.below(6)),
    stored: random.oneOf(['Y', 'N']),
    payment: random.oneOf(['cash', 'card', 'none', 'disputed']),
    medallion: random.hex(32),
    driver: random.hex(32),
    fare,
    extra: 0.5,
    tax: 0.5,
    tip,
    tolls: random.oneOf([0, 0, 0, 5.54]),
    surcharge: 0.3,
    total: Math.round((fare + tip + 1.3) * 100) / 100,
    remark: '',
  };
  const bare = JSON.stringify(fields);
  const remark = random.hex(Math.max(DOCUMENT_BYTES - bare.length, 0));
  return bare.replace('"remark":""', `"remark":"${remark}"`);
}

// Returns a place in a box of 0.2 degrees.
function location(random) {
  const degrees = (from) => (from + random.below(200000)) / 1e6;
  return [degrees(-74050000), degrees(40650000)];
}
