package reshuffle.processors;

import java.lang.reflect.Method;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.elasticsearch.ingest.IngestDocument;

/** The changes that the processors make to a document. */
final class Changes {
    /** A change with its options. */
    interface Change {
        void apply(IngestDocument document) throws Exception;
    }

    /** A function that makes a change from its options. */
    interface Reader {
        Change read(Options options);
    }

    /** The method that changes a document's index, or null before Elasticsearch 8.8. */
    private static final Method REROUTE = findReroute();

    /** The changes that are made at once, by the type of their processor. */
    static final Map<String, Reader> BY_TYPE = new HashMap<>();

    static {
        BY_TYPE.put("set", Changes::set);
        BY_TYPE.put("remove", Changes::remove);
        BY_TYPE.put("rename", Changes::rename);
        BY_TYPE.put("append", Changes::append);
        BY_TYPE.put("lowercase", Changes::lowercase);
        BY_TYPE.put("fail", Changes::fail);
        if (REROUTE != null) {
            BY_TYPE.put("reroute", Changes::reroute);
        }
    }

    private Changes() {}

    private static Change set(Options options) {
        String field = options.text("field"), source = options.text("copy_from", null);
        Object value = source == null ? options.value("value") : null;
        boolean override = options.flag("override", true), ignoreEmpty = options.flag("ignore_empty_value", false);
        options.text("media_type", null); // It only concerns templates.
        return document -> {
            if (!override && document.hasField(field) && document.getFieldValue(field, Object.class) != null) {
                return;
            }
            Object found = source == null ? value : document.getFieldValue(source, Object.class, ignoreEmpty);
            if (!ignoreEmpty || found != null && !found.equals("")) {
                document.setFieldValue(field, copy(found));
            }
        };
    }

    private static Change remove(Options options) {
        List<Object> fields = options.values("field");
        boolean ignoreMissing = options.flag("ignore_missing", false);
        return document -> {
            for (Object field : fields) {
                if (!ignoreMissing || document.hasField(field.toString())) {
                    document.removeField(field.toString());
                }
            }
        };
    }

    private static Change rename(Options options) {
        String field = options.text("field"), target = options.text("target_field");
        boolean ignoreMissing = options.flag("ignore_missing", false);
        return document -> {
            if (!document.hasField(field, true)) {
                if (ignoreMissing) {
                    return;
                }
                throw new IllegalArgumentException("field [" + field + "] doesn't exist");
            }
            if (document.hasField(target, true)) {
                throw new IllegalArgumentException("field [" + target + "] already exists");
            }
            Object value = document.getFieldValue(field, Object.class);
            document.removeField(field);
            document.setFieldValue(target, value);
        };
    }

    private static Change append(Options options) {
        String field = options.text("field");
        Object value = options.value("value");
        boolean allowDuplicates = options.flag("allow_duplicates", true);
        return document -> document.appendFieldValue(field, copy(value), allowDuplicates);
    }

    private static Change lowercase(Options options) {
        String field = options.text("field"), target = options.text("target_field", field);
        boolean ignoreMissing = options.flag("ignore_missing", false);
        return document -> {
            String value = document.getFieldValue(field, String.class, ignoreMissing);
            if (value == null && !ignoreMissing) {
                throw new IllegalArgumentException("field [" + field + "] is null, cannot process it.");
            }
            if (value != null) {
                document.setFieldValue(target, value.toLowerCase(Locale.ROOT));
            }
        };
    }

    private static Change fail(Options options) {
        String message = options.text("message");
        return document -> {
            throw new FailProcessorException(message);
        };
    }

    private static Method findReroute() {
        try {
            return IngestDocument.class.getMethod("reroute", String.class);
        } catch (NoSuchMethodException older) {
            return null;
        }
    }

    private static Change reroute(Options options) {
        String destination = options.text("destination");
        return document -> REROUTE.invoke(document, destination);
    }

    /** Copies a value, so that a later change of the document changes neither the definition nor another field. */
    private static Object copy(Object value) {
        return IngestDocument.deepCopyMap(Collections.singletonMap("value", value)).get("value");
    }

    /** Reads the change of the enrich processor. It needs no policy: the object has the policy's name and the key. */
    static Change enrich(Options options) {
        String policy = options.text("policy_name"), field = options.text("field");
        String target = options.text("target_field");
        boolean ignoreMissing = options.flag("ignore_missing", false);
        return document -> {
            Object key = document.getFieldValue(field, Object.class, ignoreMissing);
            if (key != null) {
                Map<String, Object> found = new HashMap<>();
                found.put("policy", policy);
                found.put(field, key);
                document.setFieldValue(target, found);
            }
        };
    }
}
