use bulk_reshuffle_browser::look_at;
use bulk_reshuffle_stack::Tools;

#[tokio::test]
async fn the_browser_shows_a_page_and_detects_its_errors() {
    look_at(&Tools::find().unwrap(), "first", &[]).await.unwrap();
}
