// The documents of most scripts: those of the gateway's published measurement, with its mapping. About 290 bytes with
// their action lines.

export const mapping = {
  timestamp: { type: 'date', format: 'strict_date_optional_time' },
  field1: { type: 'keyword' },
  field2: { type: 'keyword' },
  field3: { type: 'keyword' },
  field4: { type: 'integer' },
  field5: { type: 'keyword' },
  field6: { type: 'float' },
};

const FIRST_DAY = Date.UTC(2026, 0, 1);
const LETTERS = ['A', 'B', 'C', 'D'];

// Returns the document with this number, as JSON text. Consecutive documents are a millisecond apart.
export function record(random, number) {
  // The fraction of a second has six digits, as in the measurement's program.
  const timestamp = `${new Date(FIRST_DAY + number).toISOString().slice(0, -1)}000`;
  return `{"timestamp":"${timestamp}","field1":"${random.hex(32)}","field2":"${random.hex(32)}",` +
    `"field3":"${random.hex(32)}","field4":${1 + random.below(1000)},"field5":"${random.oneOf(LETTERS)}",` +
    `"field6":${0.1 + random.below(999000000) / 9999999.9}}`;
}
