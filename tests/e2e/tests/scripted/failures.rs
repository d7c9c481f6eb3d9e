//! Nodes that refuse, disconnect, do not answer, or are down.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::envoy_config::clusters;
use bulk_reshuffle_e2e::{ClusterScript, Gate, Index, Item, Items, Reaction, Scene, SceneOptions, lines};
use bulk_reshuffle_stack::Response;
use serde_json::{Value, json};

/// Returns two operations for each node. The first one has the node's number, the second one that number plus ten.
fn six_operations(scene: &Scene) -> String {
    let id = |node, number| scene.cluster.book(node, number).unwrap();
    let first = (0..3).map(|node| lines::index("books", &id(node, 0), node as u64));
    first.chain((0..3).map(|node| lines::update("books", &id(node, 1), node as u64 + 10))).collect()
}

/// Checks an answer to [`six_operations`]: the operations of the nodes in `failed` failed with this status, the
/// others have their items. Returns the failed ones' errors.
fn check_six(scene: &Scene, answer: &Response, failed: &[usize], status: u64) -> Result<Vec<Value>> {
    let items = Item::read_all(answer)?;
    assert_eq!(items.len(), 6, "{}", answer.text());
    let mut errors = Vec::new();
    for (item, position) in items.iter().zip(0..) {
        let (node, second) = (position % 3, position / 3);
        let action = ["index", "update"][second];
        assert_eq!((item.action.as_str(), &item.id), (action, &scene.cluster.book(node, second)?));
        assert_eq!(item.fields["_index"], "books");
        if failed.contains(&node) {
            assert_eq!(item.status, status, "{}", item.fields);
            errors.push(item.fields["error"].clone());
        } else {
            assert_eq!(item.number(), Some((node + 10 * second) as u64), "{}", item.fields);
            assert_eq!(item.status, [201, 200][second], "{}", item.fields);
        }
    }
    Ok(errors)
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_that_one_node_refuses_fail_with_that_nodes_error() -> Result<()> {
    let config = json!({"retry": {"attempts": 0}});
    let scene = Scene::of(ClusterScript::three_nodes()).config(config).start().await?;
    let body = six_operations(&scene);
    for (status, kind) in [
        (429, "circuit_breaking_exception"),
        (403, "security_exception"),
        (401, "security_exception"),
        (500, "illegal_state_exception"),
        (503, "cluster_block_exception"),
        (413, "content_too_long_exception"),
    ] {
        scene.cluster.forget();
        scene.cluster.react_at(1, Reaction::refusal(status, kind, "because"));
        let answer = scene.bulk("/_bulk", body.clone()).await?;
        let errors = check_six(&scene, &answer, &[1], u64::from(status))?;
        assert_eq!(errors, vec![json!({"type": kind, "reason": "because"}); 2]);
        assert_eq!(scene.cluster.bulks().len(), 3, "{status} was retried");
    }
    // A refusal without a reason becomes an error with a reason.
    scene.cluster.react_at(1, Reaction::Status(502, Vec::new(), "<html>".into()));
    let errors = check_six(&scene, &scene.bulk("/_bulk", body.clone()).await?, &[1], 502)?;
    assert!(errors.iter().all(|error| error["type"].is_string() && error["reason"].is_string()), "{errors:?}");
    // Two nodes refuse for different reasons.
    scene.cluster.react(|request| match request.node {
        0 => Reaction::items(),
        1 => Reaction::refusal(429, "busy_exception", "one"),
        _ => Reaction::refusal(429, "busy_exception", "two"),
    });
    let errors = check_six(&scene, &scene.bulk("/_bulk", body).await?, &[1, 2], 429)?;
    let reasons: Vec<_> = errors.iter().map(|error| error["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["one", "two", "one", "two"]);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_all_nodes_refuse_alike_is_refused_as_a_whole() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    for (status, kind) in [(401, "security_exception"), (403, "security_exception"), (429, "busy_exception")] {
        scene.cluster.react(move |_| {
            let refusal = Reaction::refusal(status, kind, "no");
            refusal.header("www-authenticate", "Basic realm=\"a\"").header("www-authenticate", "ApiKey")
        });
        let answer = scene.bulk("/_bulk", six_operations(&scene)).await?;
        assert_eq!(answer.status, status);
        let expected = json!({"error": {"type": kind, "reason": "no"}, "status": status});
        assert_eq!(answer.json()?, expected);
        let challenges: Vec<_> = answer.headers.get_all("www-authenticate").iter().collect();
        assert_eq!(challenges, ["Basic realm=\"a\"", "ApiKey"]);
        assert_eq!(answer.headers["content-type"], "application/json; charset=UTF-8");
    }
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_offending_request_of_a_refused_batch_is_refused() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    let gate = scene.cluster.react_with_gate(|request, gate| match request.text().contains("offence") {
        true => Reaction::refusal(400, "illegal_argument_exception", "an offence"),
        false => Reaction::items().after(gate),
    });
    let write = |number: usize| scene.cluster.write_book(0, number).unwrap();
    let mut answers = vec![scene.begin_bulk("/_bulk", &[], write(0))];
    scene.cluster.wait_for_bulks("the first batch", |batches| batches.len() == 1).await?;
    for number in 1..=4 {
        answers.push(scene.begin_bulk("/_bulk", &[], write(number)));
    }
    let offence = lines::with_source("index", "books", &scene.cluster.book(0, 5)?, "{\"offence\":1}");
    let offender = scene.begin_bulk("/_bulk", &[], offence.clone());
    // This request has a share at another node too.
    let shared = scene.begin_bulk("/_bulk", &[], format!("{}{offence}", scene.cluster.write_book(1, 0)?));
    scene.wait_for_operations(8).await?;
    gate.open();

    for (answer, number) in answers.into_iter().zip(0..) {
        assert_eq!(Item::outcomes(&answer.get().await?)?, [(Some(number), 201)]);
    }
    let refused = offender.get().await?;
    assert_eq!(refused.status, 400);
    assert_eq!(refused.json()?["error"]["reason"], "an offence");
    let items = Item::read_all(&shared.get().await?)?;
    assert_eq!((items[0].status, items[1].status), (201, 400));
    assert_eq!(items[1].fields["error"]["reason"], "an offence");

    let mut sizes: Vec<_> = scene.cluster.bulks_at(0).iter().map(|batch| batch.operations().unwrap().len()).collect();
    assert_eq!(&sizes.split_off(2), &[1; 6]);
    assert_eq!(sizes, [1, 6]);
    assert_eq!(scene.counted("batches_separated_total.upstream.es-0").await?, 1);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_means_an_unknown_outcome_without_a_retry() -> Result<()> {
    let config = json!({"dispatch": {"timeout": "300ms"}, "retry": {"attempts": 0}});
    let scene = Scene::of(ClusterScript::three_nodes()).config(config).start().await?;
    let body = six_operations(&scene);
    for (reaction, status) in [(Reaction::Reset, 503), (Reaction::Break, 503), (Reaction::hang(), 504)] {
        scene.cluster.forget();
        scene.cluster.react_at(1, reaction.clone());
        let answer = scene.bulk("/_bulk", body.clone()).await?;
        for error in check_six(&scene, &answer, &[1], status)? {
            assert_eq!(error["type"], "bulk_outcome_unknown_exception", "{reaction:?}");
            assert!(error["reason"].as_str().unwrap().contains("es-1"), "{error}");
        }
        assert_eq!(scene.cluster.bulks().len(), 3, "{reaction:?}: sent twice");
        // The same holds for a request for this node alone.
        scene.cluster.forget();
        let alone = scene.bulk("/_bulk", scene.cluster.write_book(1, 0)?).await?;
        let items = Item::read_all(&alone)?;
        assert_eq!((items.len(), items[0].status), (1, status), "{reaction:?}");
        assert_eq!(items[0].error(), Some("bulk_outcome_unknown_exception"));
        assert_eq!(scene.cluster.bulks().len(), 1, "{reaction:?}: sent twice");
    }
    assert_eq!(scene.counted("operations_unknown_total.upstream.es-1").await?, 9);
    scene.cluster.react(|_| Reaction::items());
    check_six(&scene, &scene.bulk("/_bulk", body).await?, &[], 0)?;
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_has_more_time_if_its_requests_give_the_cluster_more() -> Result<()> {
    let config = json!({"dispatch": {"timeout": "300ms"}, "retry": {"attempts": 0}});
    let scene = Scene::of(ClusterScript::three_nodes()).config(config).start().await?;
    let body = six_operations(&scene);
    scene.cluster.react_at(1, Reaction::items().late(Duration::from_secs(2)));
    check_six(&scene, &scene.bulk("/_bulk", body.clone()).await?, &[1], 504)?;
    check_six(&scene, &scene.bulk("/_bulk?timeout=1s", body).await?, &[], 0)?;
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_a_busy_node_refuses_is_retried_until_accepted() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    scene.cluster.react_first(3, Reaction::refusal(429, "circuit_breaking_exception", "too much"));
    let answer = scene.bulk("/_bulk", scene.cluster.write_book(0, 0)?).await?;
    assert_eq!(Item::outcomes(&answer)?, [(Some(0), 201)]);
    let bodies: Vec<_> = scene.cluster.bulks_at(0).iter().map(|batch| batch.text()).collect();
    assert_eq!(bodies, vec![scene.cluster.write_book(0, 0)?; 4]);
    assert_eq!(scene.counted("batches_retried_total.reason.busy.upstream.es-0").await?, 3);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_items_that_a_busy_node_refuses_are_retried() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    let full = |items: &mut [Value]| {
        let item = items[1]["index"].as_object_mut().unwrap();
        item.insert("status".to_owned(), json!(429));
        item.insert("error".to_owned(), json!({"type": "es_rejected_execution_exception", "reason": "full"}));
    };
    let seen = AtomicUsize::new(0);
    scene.cluster.react(move |request| {
        match (request.node, seen.fetch_add(usize::from(request.node == 0), Ordering::Relaxed)) {
            (0, 0) => Reaction::Items(Items::default().change(move |items| full(items))),
            _ => Reaction::items(),
        }
    });
    let write = |node, number| scene.cluster.write_book(node, number).unwrap();
    let body = [write(0, 0), write(0, 1), write(1, 0), write(0, 2)].concat();
    let outcomes = Item::outcomes(&scene.bulk("/_bulk", body).await?)?;
    assert_eq!(outcomes, [(Some(0), 201), (Some(1), 201), (Some(0), 201), (Some(2), 201)]);
    let bodies: Vec<_> = scene.cluster.bulks_at(0).iter().map(|batch| batch.text()).collect();
    assert_eq!(bodies, [[write(0, 0), write(0, 1), write(0, 2)].concat(), write(0, 1)]);
    assert_eq!(scene.counted("batches_retried_total.reason.busy.upstream.es-0").await?, 1);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_batch_is_retried_only_if_it_may_be_carried_out_twice() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    scene.cluster.react_first(1, Reaction::Reset);
    let answer = scene.bulk("/_bulk", scene.cluster.write_book(0, 0)?).await?;
    assert_eq!(Item::read_all(&answer)?[0].status, 201);
    assert_eq!(scene.cluster.bulks_at(0).len(), 2);

    scene.cluster.forget();
    scene.cluster.react_first(1, Reaction::Reset);
    let create = lines::with_source("create", "books", &scene.cluster.book(0, 1)?, "{}");
    let answer = scene.bulk("/_bulk", create).await?;
    assert_eq!(Item::read_all(&answer)?[0].error(), Some("bulk_outcome_unknown_exception"));
    assert_eq!(scene.cluster.bulks_at(0).len(), 1);
    scene.finish().await
}

/// Checks that the second node's share goes to the coordinator, whose only node is the first.
async fn second_share_is_redirected(scene: &Scene) -> Result<()> {
    let body = six_operations(scene);
    check_six(scene, &scene.bulk("/_bulk", body).await?, &[], 0)?;
    let ids: Vec<Vec<_>> = scene
        .cluster
        .bulks_at(0)
        .iter()
        .map(|batch| batch.operations().unwrap().into_iter().map(|operation| operation.id.unwrap()).collect())
        .collect();
    let of_node = |node| [scene.cluster.book(node, 0).unwrap(), scene.cluster.book(node, 1).unwrap()].to_vec();
    assert!(ids.len() == 2 && ids.contains(&of_node(0)) && ids.contains(&of_node(1)), "{ids:?}");
    assert_eq!(scene.cluster.bulks_at(1).len(), 0);
    assert_eq!(scene.counted("batches_redirected_total.upstream.es-1").await?, 1);

    scene.cluster.forget();
    let alone = scene.bulk("/_bulk", scene.cluster.write_book(1, 0)?).await?;
    assert_eq!(Item::read_all(&alone)?[0].status, 201);
    assert_eq!(scene.cluster.bulks().len(), 1);
    assert_eq!(scene.passed_through().await?, [].into());
    Ok(())
}

fn with_one_coordinator() -> SceneOptions {
    Scene::of(ClusterScript::three_nodes()).coordinators([0])
}

#[tokio::test(flavor = "multi_thread")]
async fn the_share_of_a_node_that_is_down_goes_to_the_coordinator() -> Result<()> {
    let mut scene = with_one_coordinator().start().await?;
    // Open a connection to the node before it goes down.
    scene.bulk("/_bulk", scene.cluster.write_book(1, 0)?).await?;
    scene.cluster.forget();
    scene.take_down(1).await?;
    second_share_is_redirected(&scene).await?;
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_down_causes_no_error_even_as_a_coordinator() -> Result<()> {
    let mut scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    scene.take_down(1).await?;
    for round in 0..6 {
        let answer = scene.bulk("/_bulk", six_operations(&scene)).await?;
        check_six(&scene, &answer, &[], 0).with_context(|| format!("round {round}"))?;
        // One request for each host of the coordinator.
        for _ in 0..3 {
            let passed = scene.bulk("/_bulk?unknown=1", six_operations(&scene)).await?;
            check_six(&scene, &passed, &[], 0).with_context(|| format!("passed through, round {round}"))?;
        }
    }
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_down_causes_no_error_for_many_concurrent_requests() -> Result<()> {
    const REQUESTS: usize = 100;
    let mut scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    scene.take_down(1).await?;
    let begin = |_| scene.begin_bulk("/_bulk?unknown=1", &[], six_operations(&scene));
    let answers: Vec<_> = (0..REQUESTS).map(begin).collect();
    for answer in answers {
        check_six(&scene, &answer.get().await?, &[], 0)?;
    }
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_share_of_a_node_without_an_upstream_goes_to_the_coordinator() -> Result<()> {
    let scene = with_one_coordinator().without_upstream(1).start().await?;
    second_share_is_redirected(&scene).await?;
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_share_of_a_node_with_an_open_circuit_breaker_goes_to_the_coordinator() -> Result<()> {
    let scene = with_one_coordinator().edit(|config| {
        let second = clusters(config).iter_mut().find(|cluster| cluster["name"] == "es-1").unwrap();
        second["circuit_breakers"] = json!({"thresholds": [{"max_requests": 0, "max_pending_requests": 0}]});
        Ok(())
    });
    let scene = scene.start().await?;
    second_share_is_redirected(&scene).await?;
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_any_upstream_gets_a_json_error() -> Result<()> {
    let mut scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    let (all, alone) = (six_operations(&scene), scene.cluster.write_book(1, 0)?);
    for node in 0..3 {
        scene.take_down(node).await?;
    }
    for body in [all, alone] {
        let answer = scene.bulk("/_bulk", body).await?;
        assert_eq!(answer.status, 503);
        assert_eq!(answer.headers["content-type"], "application/json; charset=UTF-8");
        let json = answer.json()?;
        assert_eq!((&json["status"], &json["error"]["type"]), (&json!(503), &json!("no_upstream_exception")));
        assert!(json["error"]["root_cause"][0]["reason"].is_string());
    }
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_node_does_not_affect_requests_for_other_nodes() -> Result<()> {
    let script = ClusterScript::three_nodes().index(Index::new("films", [2]));
    let scene = Scene::of(script).start().await?;
    let gate = Gate::closed();
    scene.cluster.react_at(1, Reaction::Reset.after(&gate));
    let stuck = scene.begin_bulk("/_bulk", &[], six_operations(&scene));
    scene.cluster.wait_for_bulks("all shares", |batches| batches.len() == 3).await?;
    for number in 0..5 {
        let items = Item::read_all(&scene.bulk("/_bulk", lines::index("films", "f", number)).await?)?;
        assert_eq!(items[0].number(), Some(number));
    }
    assert!(!stuck.is_there());
    gate.open();
    check_six(&scene, &stuck.get().await?, &[1], 503)?;
    scene.finish().await
}
