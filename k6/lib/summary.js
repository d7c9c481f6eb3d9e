// The summary at the end of a run, and the file with all of k6's figures.

// The runner names the files of a run; without it, none is written.
const RESULTS = __ENV.RESULTS;

export function summarize(data, phases, indices) {
  const outputs = { stdout: `${report(data, phases, indices)}\n` };
  if (RESULTS) {
    outputs[`${RESULTS}.json`] = JSON.stringify(data, null, 2);
  }
  return outputs;
}

function report(data, phases, indices) {
  if (!data.setup_data) {
    return '\nThe script could not be set up; the error below says why.';
  }
  const values = (metric) => (data.metrics[metric] || { values: {} }).values;
  return [
    '',
    circumstances(data.setup_data),
    '',
    table(phases.map((phase) => phaseRow(phase, values))),
    '',
    ...unsentOf(values('dropped_iterations')),
    ...checksOf(data.root_group).map(checkOf),
    ...phases.filter((phase) => !isComplete(phase, values)).map(({ name, operations }) =>
      verdict(false, `phase ${name}: not all ${grouped(operations || '')} operations were answered`)),
    ...indices.map((index) => countOf(index, values)),
  ].join('\n');
}

function circumstances({ script, target, nodes, settings: { shards, replicas, translog } }) {
  return `${script} at ${target}: ${nodes.length} nodes (${[...new Set(nodes)].join(', ')}), ` +
    `${shards} shards, ${replicas} replicas, translog ${translog}`;
}

// At a fixed rate, k6 does not send a request if no client is free when it is due.
function unsentOf({ count }) {
  return count ? [`  ${grouped(count)} requests were not sent: all clients were waiting when they were due`, ''] : [];
}

function checkOf({ name, passes, fails }) {
  const extent = fails === 0 ? '' : `: false in ${grouped(fails)} of ${grouped(passes + fails)} answers`;
  return verdict(fails === 0, name + extent);
}

function isComplete({ name, operations }, values) {
  const answered = values(`bulk_operations{phase:${name}}`).count || 0;
  return operations === undefined ? answered > 0 : answered === operations;
}

function phaseRow({ name }, values) {
  const latency = values(`bulk_duration{phase:${name}}`);
  const operations = values(`bulk_operations{phase:${name}}`).count || 0;
  const clock = values(`bulk_clock{phase:${name}}`);
  const perSecond = (time) => (time > 0 ? grouped(Math.round((1000 * operations) / time)) : '-');
  const milliseconds = (statistic) => (latency.count ? latency[statistic].toFixed(1) : '-');
  return {
    phase: name,
    requests: grouped(latency.count || 0),
    operations: grouped(operations),
    'operations/s': perSecond(clock.max - clock.min),
    // The rate of one client, without the time in which k6 generates documents and checks answers.
    'while waiting': perSecond(latency.avg * latency.count),
    'p50 ms': milliseconds('med'),
    'p95 ms': milliseconds('p(95)'),
    'p99 ms': milliseconds('p(99)'),
    'max ms': milliseconds('max'),
  };
}

function countOf(index, values) {
  const acknowledged = values(`documents_acknowledged{index:${index}}`).count || 0;
  const counted = values(`documents_counted{index:${index}}`).count || 0;
  const isRight = acknowledged === counted;
  return verdict(isRight, `${index}: ${grouped(acknowledged)} documents acknowledged, ${grouped(counted)} counted`);
}

function checksOf(group) {
  return group.checks.concat(...group.groups.map(checksOf))
    // k6 has separate groups for set-up and run.
    .reduce((merged, { name, passes, fails }) => {
      const known = merged.find((other) => other.name === name);
      if (!known) {
        return merged.concat({ name, passes, fails });
      }
      known.passes += passes;
      known.fails += fails;
      return merged;
    }, []);
}

function verdict(isRight, statement) {
  return `  ${isRight ? '✓' : '✗'} ${statement}`;
}

function table(rows) {
  const columns = Object.keys(rows[0]);
  const width = (column) => Math.max(column.length, ...rows.map((row) => row[column].length));
  const cell = (value, column, place) => (place === 0 ? value.padEnd(width(column)) : value.padStart(width(column)));
  const line = (value) => `  ${columns.map((column, place) => cell(value(column), column, place)).join('  ')}`;
  return [line((column) => column), ...rows.map((row) => line((column) => row[column]))].join('\n');
}

// Formats 1234567 as 1,234,567.
function grouped(number) {
  return String(number).replace(/\B(?=(\d{3})+$)/g, ',');
}
