// Reads the answer to a bulk request and compares it with the request.

// Returns the faults of an answer by kind, the first one in words, and the answer's items.
export function findFaults(answer, operations) {
  const faults = { number: true, identity: true, itemStatus: true, flag: true, first: '', items: [] };
  faults.status = answer.status !== 200;
  const content = faults.status ? undefined : parse(answer.body);
  if (!content || !Array.isArray(content.items)) {
    faults.first = faults.status ? '' : `the answer is not a bulk answer: ${String(answer.body).slice(0, 300)}`;
    return faults;
  }
  faults.items = content.items;
  faults.number = content.items.length !== operations.length;
  if (faults.number) {
    faults.first = `${content.items.length} items for ${operations.length} operations`;
    return faults;
  }
  return compareItems(content, operations, faults);
}

// Returns the answer to a request for a single document as an answer to a bulk request of one operation.
export function asBulkAnswer(answer, { action }) {
  const fields = answer.status < 300 && parse(answer.body);
  if (!fields) {
    return answer;
  }
  const items = [{ [action]: Object.assign({}, fields, { status: answer.status }) }];
  return { status: 200, body: JSON.stringify({ errors: false, items }), timings: answer.timings };
}

// Plain loops: there may be ten thousand items.
function compareItems(content, operations, faults) {
  let hasError = false;
  faults.identity = faults.itemStatus = false;
  for (let place = 0; place < operations.length; place++) {
    const operation = operations[place];
    const fields = (content.items[place] || {})[operation.action] || {};
    const hasId = operation.id === undefined ? Boolean(fields._id) : fields._id === operation.id;
    const isOurs = hasId && fields._index === operation.index;
    const isRight = fields.status === operation.status;
    hasError = hasError || fields.error !== undefined;
    if (!isOurs || !isRight) {
      faults.identity = faults.identity || !isOurs;
      faults.itemStatus = faults.itemStatus || !isRight;
      faults.first = faults.first || describe(place, content.items[place], operation) + advice(fields);
    }
  }
  faults.flag = content.errors !== hasError;
  faults.first = faults.first || (faults.flag ? `\`errors\` is ${content.errors}, which contradicts the items` : '');
  return faults;
}

function describe(place, item, operation) {
  return `item ${place} is ${JSON.stringify(item).slice(0, 300)} for the operation ${JSON.stringify(operation)}`;
}

function advice({ status }) {
  return status === 429 ? '. The cluster is overloaded: give fewer CLIENTS' : '';
}

function parse(body) {
  try {
    return JSON.parse(body);
  } catch (_) {
    return undefined;
  }
}
