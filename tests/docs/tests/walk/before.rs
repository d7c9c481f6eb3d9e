//! Additional setup for blocks that need more than `make up`.

use bulk_reshuffle_docs::Block;

/// The setup and the cleanup of a block.
pub struct Before {
    page: &'static str,
    begins: &'static str,
    /// The commands to run in the same shell before the block.
    pub first: &'static str,
    /// The commands to run after the block.
    pub last: &'static str,
}

static ALL: [Before; 1] = [
    // A replica as in `envoy/front.yaml`, which must end by itself.
    Before {
        page: "envoy/README.md",
        begins: "curl -X POST 127.0.0.1:9911/healthcheck/fail",
        first: r#"
            config=$(sed 's/: 9200/: 9211/; s/: 9901/: 9911/' envoy/envoy.yaml)
            .tools/envoy/envoy --use-dynamic-base-id --concurrency 1 --config-yaml "$config" > /dev/null 2>&1 &
            PID=$!
            trap 'kill -9 "$PID" 2> /dev/null || :' EXIT
            until [ "$(command curl -s 127.0.0.1:9911/ready)" = LIVE ]; do kill -0 "$PID"; done
            curl -s 127.0.0.1:9211/books/_bulk -H 'content-type: application/x-ndjson' \
                --data-binary $'{"index":{"_id":"1"}}\n{}\n' > /dev/null
        "#,
        last: r#"wait "$PID""#,
    },
];

/// Returns the setup of a block, if it has any.
pub fn of(block: &Block) -> Option<&'static Before> {
    ALL.iter().find(|before| before.page == block.page && block.text.trim_start().starts_with(before.begins))
}
