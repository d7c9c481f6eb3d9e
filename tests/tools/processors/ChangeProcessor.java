package reshuffle.processors;

import org.elasticsearch.ingest.AbstractProcessor;
import org.elasticsearch.ingest.IngestDocument;

/** A processor that changes a document at once. */
class ChangeProcessor extends AbstractProcessor {
    private final String type;
    private final Changes.Change change;

    ChangeProcessor(String type, String tag, String description, Changes.Change change) {
        super(tag, description);
        this.type = type;
        this.change = change;
    }

    @Override
    public String getType() {
        return type;
    }

    @Override
    public IngestDocument execute(IngestDocument document) throws Exception {
        change.apply(document);
        return document;
    }
}
