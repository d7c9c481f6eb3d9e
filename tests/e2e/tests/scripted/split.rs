//! A request is split over the nodes, and its answer is merged.

use std::collections::BTreeSet;

use anyhow::Result;
use bulk_reshuffle_e2e::{ClusterScript, Index, Item, Items, Reaction, Scene, lines};
use hyper::Request;
use serde_json::json;

/// Returns operations in various spellings, each with the id or routing value that determines its shard.
fn operations() -> Vec<(&'static str, &'static str)> {
    vec![
        ("id-0", "{\"index\":{\"_index\":\"books\",\"_id\":\"id-0\"}}\n{\"n\":1}\n"),
        ("id-1", "{\"create\":{\"_index\":\"books\",\"_id\":\"id-1\"}}\n{\"n\":2}\n"),
        ("id-2", "{\"update\":{\"_index\":\"books\",\"_id\":\"id-2\",\"retry_on_conflict\":3}}\n{\"doc\":{\"n\":3}}\n"),
        ("id-3", "{\"delete\":{\"_index\":\"books\",\"_id\":\"id-3\"}}\n"),
        ("id-9", "{\"delete\":{\"_index\":\"books\",\"_id\":\"id-3\",\"routing\":\"id-9\"}}\n"),
        ("id-4", "{\"index\":{\"_index\":\"reading\",\"_id\":\"id-4\"}}\n{\"n\":6}\n"),
        ("id-5", "{\"index\":{\"_index\":\"shelf\",\"_id\":\"anything\"}}\n{\"n\":7}\n"),
        ("17", "{\"index\":{\"_index\":\"books\",\"_id\":17}}\n{\"n\":8}\n"),
        ("a\"b", "{\"index\":{\"_index\":\"books\",\"_id\":\"\\u0061\\\"b\"}}\n{\"n\":9}\n"),
        ("\u{1f642}", "{\"index\":{\"_index\":\"books\",\"_id\":\"\u{1f642}\"}}\n{\"n\":10}\n"),
        ("id-6", "{ \"index\" : { \"_index\" : \"books\", \"_id\" : \"id-6\" } }  \n { \"n\" : 11 } \n"),
        ("id-7", "{\"index\":{\"_index\":\"books\",\"_id\":\"id-7\"}}\r\n{\"n\":12}\r\n"),
        ("id-8", "{\"index\":{\"_index\":\"books\",\"_id\":\"id-8\"}}\nthe shard's problem\n"),
        ("id-0", "{\"update\":{\"_index\":\"books\",\"_id\":\"id-0\"}}\n{\"doc\":{\"n\":14},\"doc_as_upsert\":true}\n"),
        ("id-0", "{\"delete\":{\"_index\":\"books\",\"_id\":\"id-0\"}}\n"),
    ]
}

fn library() -> ClusterScript {
    let books = Index::new("books", [0, 1, 2]);
    let books = books.alias("reading", json!({})).alias("shelf", json!({"index_routing": "id-5"}));
    ClusterScript::new(3).index(books)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_node_gets_exactly_its_operations_as_the_client_wrote_them() -> Result<()> {
    let scene = Scene::of(library()).start().await?;
    let operations = operations();
    // The cluster and the filter ignore a blank line before an action line.
    let body: String = operations.iter().map(|(_, lines)| format!("{lines}\n")).collect();
    let headers = [
        ("authorization", "Basic czpz"),
        ("x-opaque-id", "mine"),
        ("x-anything", "else"),
        ("accept", "application/json"),
        ("user-agent", "curl/8"),
        ("x-request-id", "1"),
        ("accept-encoding", "br"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ];
    let target = "/_bulk?refresh=wait_for&timeout=1m";
    let answer = scene.bulk_with(target, &headers, body).await?;

    let script = library();
    for node in 0..3 {
        let is_here = |key: &str| script.node("books", key).unwrap() == node;
        let expected: String = operations.iter().filter(|(key, _)| is_here(key)).map(|(_, lines)| *lines).collect();
        assert!(!expected.is_empty(), "no operations for es-{node}");
        let batch = scene.cluster.only_bulk_at(node)?;
        assert_eq!(batch.text(), expected, "at es-{node}");
        assert_eq!((batch.method.as_str(), batch.target.as_str()), ("POST", target));
        for (name, value) in &headers[..4] {
            assert_eq!(batch.header(name), Some(*value));
        }
        for (name, _) in &headers[4..] {
            assert_eq!(batch.header(name), None, "{name} was forwarded");
        }
        assert_eq!(batch.header("content-type"), Some("application/x-ndjson"));
        assert_eq!(batch.header("content-encoding"), None, "compressed by default");
        assert_eq!(batch.header("host"), Some(scene.envoy.addr().to_string().as_str()));
    }
    let items = Item::read_all(&answer)?;
    let found: Vec<_> = items.iter().map(|item| (item.action.as_str(), item.id.as_str())).collect();
    assert_eq!(
        found,
        [
            ("index", "id-0"),
            ("create", "id-1"),
            ("update", "id-2"),
            ("delete", "id-3"),
            ("delete", "id-3"),
            ("index", "id-4"),
            ("index", "anything"),
            ("index", "17"),
            ("index", "a\"b"),
            ("index", "\u{1f642}"),
            ("index", "id-6"),
            ("index", "id-7"),
            ("index", "id-8"),
            ("update", "id-0"),
            ("delete", "id-0"),
        ]
    );
    let numbers: Vec<_> = items.iter().filter_map(Item::number).collect();
    assert_eq!(numbers, [1, 2, 3, 0, 0, 6, 7, 8, 9, 10, 11, 12, 0, 14, 0]);
    assert_eq!(scene.passed_through().await?, [].into());
    assert_eq!(scene.counted("requests_total.outcome.merged").await?, 1);
    assert_eq!(scene.counted("operations_total").await?, 15);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_is_merged_from_all_nodes_answers() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    let failed = scene.cluster.book(1, 0)?;
    scene.cluster.react(move |request| {
        let failed = failed.clone();
        let items = Items::default().header("warning", "299 fake \"all\"");
        Reaction::Items(match request.node {
            0 => items.took(3).header("warning", "299 fake \"first\""),
            1 => items.took(11).change(move |items| {
                let item = items.iter_mut().find(|item| item["index"]["_id"] == failed.as_str()).unwrap();
                item["index"]["status"] = json!(400);
                item["index"]["error"] = json!({"type": "mapper_parsing_exception", "reason": "failed to parse"});
            }),
            _ => items.took(7).header("warning", "299 fake \"last\"").header("x-only-here", "1"),
        })
    });
    let mut body = String::new();
    for (node, number) in [(2, 0), (0, 0), (1, 0), (1, 1), (0, 1), (2, 1)] {
        body += &scene.cluster.write_book(node, number)?;
    }
    let answer = scene.bulk("/_bulk", body).await?;

    let expected = [(0, 201), (0, 201), (0, 400), (1, 201), (1, 201), (1, 201)];
    assert_eq!(Item::outcomes(&answer)?, expected.map(|(number, status)| (Some(number), status)));
    let json = answer.json()?;
    assert_eq!((&json["took"], &json["errors"]), (&json!(11), &json!(true)));
    assert_eq!(json["items"][2]["index"]["error"]["type"], "mapper_parsing_exception");
    let mut warnings: Vec<_> = answer.headers.get_all("warning").iter().map(|value| value.to_str().unwrap()).collect();
    warnings.sort_unstable();
    assert_eq!(warnings, ["299 fake \"all\"", "299 fake \"first\"", "299 fake \"last\""]);
    assert_eq!(answer.headers["x-elastic-product"], "Elasticsearch");
    assert_eq!(answer.headers["content-type"], "application/json; charset=UTF-8");
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn routing_in_the_query_applies_to_operations_without_routing() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    let (here, there) = (scene.cluster.book(0, 0)?, scene.cluster.book(1, 0)?);
    let everywhere = scene.cluster.write_books(1);
    let elsewhere = format!("{{\"index\":{{\"_index\":\"books\",\"_id\":\"x\",\"routing\":\"{there}\"}}}}\n{{}}\n");
    let target = format!("/_bulk?routing={here}");
    let answer = scene.bulk(&target, format!("{everywhere}{elsewhere}")).await?;
    assert_eq!(Item::read_all(&answer)?.len(), 4);
    let (first, second) = (scene.cluster.only_bulk_at(0)?, scene.cluster.only_bulk_at(1)?);
    assert_eq!((first.text(), second.text()), (everywhere, elsewhere));
    assert_eq!((first.target, second.target), (target.clone(), target));
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_one_node_gets_that_nodes_answer_unchanged() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    let odd = "{ \"errors\" : false, \"took\":1,\n \"ingest_took\": 4, \"items\":[] }";
    scene.cluster.react(move |_| Reaction::raw(odd).header("x-from", "the node"));
    let body = scene.cluster.write_book(1, 0)?;
    let request = Request::put(scene.envoy.url("/_bulk")).header("content-type", "application/json");
    let answer = scene.client.send(request.body(body.clone().into())?).await?;
    assert_eq!((answer.status.as_u16(), answer.text().as_str()), (200, odd));
    assert_eq!(answer.headers["x-from"], "the node");
    let batch = scene.cluster.only_bulk_at(1)?;
    assert_eq!((batch.method.as_str(), batch.text()), ("PUT", body));
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn with_pass_operations_without_an_id_stay_together_and_rotate_over_the_nodes() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).config(json!({"missing_id": "pass"})).start().await?;
    let body = "{\"index\":{\"_index\":\"books\"}}\n{\"n\":1}\n{\"create\":{\"_index\":\"books\"}}\n{\"n\":2}\n";
    for _ in 0..3 {
        let items = Item::read_all(&scene.bulk("/_bulk", body).await?)?;
        let numbers: Vec<_> = items.iter().map(|item| (item.action.as_str(), item.number())).collect();
        assert_eq!(numbers, [("index", Some(1)), ("create", Some(2))]);
    }
    for node in 0..3 {
        assert_eq!(scene.cluster.only_bulk_at(node)?.text(), body);
    }
    // With ids in the same request, the answer is merged from several. It has the ids that the cluster generated.
    scene.cluster.forget();
    let items = Item::read_all(&scene.bulk("/_bulk", scene.cluster.write_books(0) + body).await?)?;
    assert_eq!(items.len(), 5);
    assert!(items[3].id.starts_with("generated-") && items[4].id.starts_with("generated-"));
    assert_eq!(scene.cluster.bulks().len(), 3);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_that_only_the_cluster_can_route_form_one_share_for_the_coordinator() -> Result<()> {
    let script = ClusterScript::three_nodes()
        .index(Index::new("far-away", [7]))
        .index(Index::new("series", [0]).setting("mode", "time_series"));
    let scene = Scene::of(script).coordinators([2]).start().await?;
    let (book, other) = (scene.cluster.write_book(0, 0)?, scene.cluster.write_book(1, 0)?);
    let unrouted = [
        lines::index("far-away", "2", 11),
        "{\"create\":{\"_index\":\"series\"}}\n{\"n\":12}\n".to_owned(),
        lines::index("far-away", "3", 13),
    ];
    let body = [&unrouted[0], &book, &unrouted[1], &other, &unrouted[2]].map(String::as_str).concat();
    let items = Item::read_all(&scene.bulk("/_bulk", body).await?)?;
    let numbers: Vec<_> = items.iter().map(|item| item.number().unwrap()).collect();
    assert_eq!(numbers, [11, 0, 12, 0, 13]);
    assert_eq!(scene.cluster.only_bulk_at(0)?.text(), book);
    assert_eq!(scene.cluster.only_bulk_at(1)?.text(), other);
    assert_eq!(scene.cluster.only_bulk_at(2)?.text(), unrouted.concat());
    assert_eq!(scene.passed_through().await?, [].into());
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_has_the_operations_of_one_node_or_one_shard_depending_on_the_level() -> Result<()> {
    // Six shards on three nodes. The alias resolves to the same shards.
    let books = Index::new("books", [0, 1, 2, 0, 1, 2]);
    let shard_of = |id: &str| books.shard(id).unwrap();
    let script = ClusterScript::new(3).index(books.clone().alias("reading", json!({})));
    let ids: Vec<_> = (0..60).map(|number| format!("id-{number}")).collect();
    let name = |number: usize| if number.is_multiple_of(2) { "books" } else { "reading" };
    let lines = |id: &String, number| lines::index(name(number), id, number as u64);
    // Each document twice, the second time by the alias.
    let body: String = (0..120).map(|number| lines(&ids[number / 2], number)).collect();
    for (level, batches) in [("node", 3), ("shard", 6)] {
        let scene = Scene::of(script.clone()).config(json!({"dispatch": {"level": level}})).start().await?;
        let items = Item::read_all(&scene.bulk("/_bulk", body.clone()).await?)?;
        let numbers: Vec<_> = items.iter().map(|item| item.number().unwrap()).collect();
        assert_eq!(numbers, (0..120).collect::<Vec<_>>(), "{level}");
        let bulks = scene.cluster.bulks();
        assert_eq!(bulks.len(), batches, "{level}");
        let mut shards_seen = Vec::new();
        for batch in &bulks {
            let of_batch: BTreeSet<_> = ids.iter().filter(|id| batch.text().contains(&format!("\"{id}\""))).collect();
            let shards: BTreeSet<_> = of_batch.iter().map(|id| shard_of(id)).collect();
            assert!(shards.iter().all(|shard| shard % 3 == batch.node), "{level}: {shards:?} at es-{}", batch.node);
            assert_eq!(shards.len(), 6 / batches, "{level}");
            // Both operations on each document, in order.
            let kept = (0..120).filter(|number| of_batch.contains(&ids[number / 2]));
            assert_eq!(batch.text(), kept.map(|number| lines(&ids[number / 2], number)).collect::<String>(), "{level}");
            shards_seen.extend(shards);
        }
        shards_seen.sort_unstable();
        assert_eq!(shards_seen, [0, 1, 2, 3, 4, 5], "{level}");
        assert_eq!(scene.passed_through().await?, [].into());
        scene.finish().await?;
    }
    Ok(())
}
