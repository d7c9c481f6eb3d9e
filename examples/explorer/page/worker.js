// Works in the background, so that the page stays responsive. Each message names a function; its answer has the same
// number.
const loaded = import('./package/browser.js');
let cluster;

const questions = {
  sample: (core) => ({ state: core.sampleState(), body: core.sampleBody() }),
  load: (core, state, config) => {
    cluster = new core.Cluster(state, config);
    return cluster.nodes;
  },
  explain: (core, body, path, listed) => ({
    explanation: cluster.explain(body, { path, listed }),
    forwarding: cluster.forwarding(body, { path }),
  }),
  simulate: (core, body, settings) => cluster.simulate(body, settings),
};

onmessage = async ({ data: { number, question, values } }) => {
  try {
    postMessage({ number, answer: questions[question](await loaded, ...values) });
  } catch (error) {
    postMessage({ number, problem: error.message });
  }
};
