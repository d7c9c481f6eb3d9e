// Sends requests to one address, or to several, round robin.

import http from 'k6/http';
import { text } from './parameters.js';

const ADDRESSES = text('TARGET', 'http://127.0.0.1:9200').split(',')
  .map((address) => address.trim().replace(/\/$/, ''));
const AUTHORIZATION = text('AUTHORIZATION', '');
const TIMEOUT = text('TIMEOUT', '60s');

export const addresses = ADDRESSES.join(', ');

// Sends a bulk request. The number selects one of several addresses.
export function postBulk(number, body, authorization = AUTHORIZATION) {
  const url = `${ADDRESSES[number % ADDRESSES.length]}/_bulk`;
  return http.post(url, body, { headers: headers('application/x-ndjson', authorization), timeout: TIMEOUT });
}

// Sends a document in a request of its own.
export function postDocument(number, { index, id }, source, authorization = AUTHORIZATION) {
  const name = id === undefined ? '_doc?op_type=index' : `_doc/${encodeURIComponent(id)}`;
  const url = `${ADDRESSES[number % ADDRESSES.length]}/${index}/${name}`;
  // k6 keeps series of metrics for each name, which by default is the URL.
  const tags = { name: 'document' };
  return http.post(url, source, { headers: headers('application/json', authorization), timeout: TIMEOUT, tags });
}

// Sends a request of the set-up or the count. An answer with a status other than these ends the run.
export function ask(method, path, body = null, statuses = [200]) {
  const url = ADDRESSES[0] + path;
  const parameters = { headers: headers('application/json', AUTHORIZATION), timeout: TIMEOUT };
  const answer = http.request(method, url, body && JSON.stringify(body), parameters);
  if (!statuses.includes(answer.status)) {
    throw new Error(`${method} ${url}: ${whatHappened(answer)}`);
  }
  return answer;
}

// Describes a failed answer for a message, with advice.
export function whatHappened(answer) {
  const excerpt = String(answer.body || '').slice(0, 300);
  switch (answer.status) {
    case 0:
      return `no answer (${answer.error}). Does something listen at TARGET, ${addresses}? \`make up\` starts a ` +
        'cluster behind the filter at http://127.0.0.1:9200; TIMEOUT sets the time to wait';
    case 401:
    case 403:
      return `status ${answer.status}: set AUTHORIZATION to the header's value, as in "ApiKey …". ${excerpt}`;
    default:
      return `status ${answer.status}: ${excerpt}`;
  }
}

function headers(contentType, authorization) {
  const always = { 'content-type': contentType };
  return authorization ? Object.assign(always, { authorization }) : always;
}
