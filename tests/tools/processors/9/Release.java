package reshuffle.processors;

import java.util.Map;
import java.util.function.Predicate;
import org.elasticsearch.ingest.Processor;
import org.elasticsearch.script.IngestConditionalScript;

/** The server's interface since Elasticsearch 9. The other folder is for other releases. */
final class Release {
    /** A function that makes a processor from its definition. */
    interface Maker {
        Processor make(String tag, String description, Map<String, Object> config);
    }

    static Processor.Factory factory(Maker maker) {
        return (others, tag, description, config, project) -> maker.make(tag, description, config);
    }

    static IngestConditionalScript.Factory script(Predicate<Map<String, Object>> condition) {
        return (parameters, document) -> new IngestConditionalScript(parameters, document) {
            @Override
            public boolean execute() {
                return condition.test(getCtx());
            }
        };
    }

    private Release() {}
}
