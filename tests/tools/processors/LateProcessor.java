package reshuffle.processors;

import java.util.concurrent.ThreadLocalRandom;
import java.util.function.BiConsumer;
import java.util.function.BiFunction;
import org.elasticsearch.ingest.IngestDocument;

/** A processor that changes a document on another thread, up to 5 ms later. The server does not wait for it. */
final class LateProcessor extends ChangeProcessor {
    private static final long MOST_MILLISECONDS = 5;

    private final BiFunction<Long, Runnable, ?> scheduler;

    LateProcessor(String type, String tag, String description, Changes.Change change,
                  BiFunction<Long, Runnable, ?> scheduler) {
        super(type, tag, description, change);
        this.scheduler = scheduler;
    }

    /** Overrides a method of Elasticsearch 8 and later. Earlier servers expect a late answer from any processor. */
    public boolean isAsync() {
        return true;
    }

    @Override
    public void execute(IngestDocument document, BiConsumer<IngestDocument, Exception> handler) {
        long delay = ThreadLocalRandom.current().nextLong(MOST_MILLISECONDS + 1);
        scheduler.apply(delay, () -> answer(document, handler));
    }

    private void answer(IngestDocument document, BiConsumer<IngestDocument, Exception> handler) {
        IngestDocument changed;
        try {
            changed = execute(document);
        } catch (Exception failure) {
            handler.accept(null, failure);
            return;
        }
        handler.accept(changed, null);
    }
}
