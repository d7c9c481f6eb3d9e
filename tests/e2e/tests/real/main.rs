//! The filter in the real Envoy, in front of a real three-node OpenSearch cluster.

mod answers;
mod buffer;
mod clients;
mod compression;
mod differential;
mod documents;
mod freshness;
mod gateway;
mod http2;
mod isolation;
mod levels;
mod missing_ids;
mod missing_upstream;
mod observed;
mod owned;
mod ownership;
mod response_parameters;
mod rollout;
mod shared_scene;
mod sizes;
mod tls;
mod traffic;
mod workers;

/// Some tests send requests that are larger than a tenth of the smallest heap, which a node would refuse.
const PROFILE: bulk_reshuffle_stack::Profile = bulk_reshuffle_stack::Profile::Large;
