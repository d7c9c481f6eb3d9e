package reshuffle.processors;

import java.util.Map;
import java.util.function.Predicate;
import org.elasticsearch.ingest.Processor;
import org.elasticsearch.script.IngestConditionalScript;

/** The server's interface up to Elasticsearch 8, and of OpenSearch 1. The other folder is for other releases. */
final class Release {
    /** A function that makes a processor from its definition. */
    interface Maker {
        Processor make(String tag, String description, Map<String, Object> config);
    }

    static Processor.Factory factory(Maker maker) {
        return (others, tag, description, config) -> maker.make(tag, description, config);
    }

    static IngestConditionalScript.Factory script(Predicate<Map<String, Object>> condition) {
        return parameters -> new IngestConditionalScript(parameters) {
            @Override
            public boolean execute(Map<String, Object> document) {
                return condition.test(document);
            }
        };
    }

    private Release() {}
}
