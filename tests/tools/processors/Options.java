package reshuffle.processors;

import java.util.List;
import java.util.Map;
import org.elasticsearch.ingest.ConfigurationUtils;

/** A processor's options. The server refuses a definition with options that were not read. */
final class Options {
    private final String type;
    private final String tag;
    private final Map<String, Object> config;

    Options(String type, String tag, Map<String, Object> config) {
        this.type = type;
        this.tag = tag;
        this.config = config;
    }

    String text(String name) {
        return ConfigurationUtils.readStringProperty(type, tag, config, name);
    }

    String text(String name, String otherwise) {
        return config.containsKey(name) ? text(name) : otherwise;
    }

    boolean flag(String name, boolean otherwise) {
        return ConfigurationUtils.readBooleanProperty(type, tag, config, name, otherwise);
    }

    Object value(String name) {
        return ConfigurationUtils.readObject(type, tag, config, name);
    }

    /** Reads a list, or a single value as a list. */
    @SuppressWarnings("unchecked")
    List<Object> values(String name) {
        Object value = value(name);
        return value instanceof List ? (List<Object>) value : List.of(value);
    }
}
