import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.OutputStream;
import java.lang.reflect.Array;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import java.util.zip.CRC32;

/**
 * Reads bulk bodies as the REST handler of one release does: with the parser and the validation of the server whose jars
 * are on the class path, but without the server.
 *
 * <p>Input: for each body its length as four bytes, a byte with the {@link Query}, and the body. Output: for each body a
 * line of JSON, either {@code {"refused":{"status":…,"reason":…}}} or {@code {"accepted":{"operations":[…]}}}.
 *
 * <p>The releases differ in packages and signatures, so that everything is called by reflection.
 */
public final class BulkParser {
    /** The parameters of a request's path and query, in the bits of a byte. The values are those of the Rust side. */
    private record Query(String index, String routing, String pipeline, boolean requireAlias, boolean allowExplicitIndex) {
        static Query of(int bits) {
            return new Query((bits & 1) != 0 ? "books" : null, (bits & 2) != 0 ? "jane" : null,
                    (bits & 4) != 0 ? "archive" : null, (bits & 8) != 0, (bits & 16) == 0);
        }
    }

    public static void main(String[] arguments) throws Exception {
        OutputStream out = new BufferedOutputStream(System.out, 1 << 16);
        System.setOut(System.err); // what a server prints must not come between the answers
        BulkParser parser = new BulkParser();
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
        try {
            while (true) {
                byte[] body = new byte[in.readInt()];
                Query query = Query.of(in.readUnsignedByte());
                in.readFully(body);
                out.write(parser.answer(body, query).getBytes(StandardCharsets.UTF_8));
                out.write('\n');
                if (in.available() == 0) {
                    out.flush();
                }
            }
        } catch (EOFException end) {
            out.flush();
        }
    }

    /** The fields of an operation in the answer, and the methods that return them. Not every operation has all. */
    private static final String[][] FIELDS = {{"index", "index"}, {"id", "id"}, {"routing", "routing"},
        {"pipeline", "getPipeline"}, {"version", "version"}, {"version_type", "versionType"}, {"if_seq_no", "ifSeqNo"},
        {"if_primary_term", "ifPrimaryTerm"}, {"require_alias", "isRequireAlias"},
        {"require_data_stream", "isRequireDataStream"}, {"retry_on_conflict", "retryOnConflict"},
        {"dynamic_templates", "getDynamicTemplates"}};

    private final String root;
    private final Object json;
    private final Class<?> bytes;
    private final Class<?> bulk;
    private final Method add;
    /** Of releases that parse a body while it arrives; null in others. */
    private final Object streaming;
    private final Method startStreaming;
    private final Method statusOf;
    // Looked up once: a class that a release does not have is searched for in all jars.
    private final Constructor<?> piece;
    private final Method composite;
    /** The server's REST API, from Elasticsearch 8 on; null in others. */
    private final Object restVersion;
    private final Method parse;
    private final Method addAll;
    private final Map<Class<?>, Map<String, Method>> getters = new HashMap<>();
    /** By the class of the operation, in the order of the fields; null for a field that it does not have. */
    private final Map<Class<?>, Method[]> fieldGetters = new HashMap<>();

    BulkParser() throws Exception {
        root = exists("org.elasticsearch.action.bulk.BulkRequest") ? "org.elasticsearch." : "org.opensearch.";
        if (exists(root + "common.logging.LogConfigurator")) {
            for (Method method : type("common.logging.LogConfigurator").getMethods()) {
                if (method.getName().equals("configureESLogging")) { // without it, loggers fail from Elasticsearch 8 on
                    method.invoke(null);
                }
            }
        }
        bytes = type("core.common.bytes.BytesReference", "common.bytes.BytesReference");
        json = type("xcontent.XContentType", "common.xcontent.XContentType").getField("JSON").get(null);
        bulk = type("action.bulk.BulkRequest");
        // The REST handler calls the method with all parameters. Elasticsearch 9 has another one for slices.
        add = Arrays.stream(bulk.getMethods())
                .filter(method -> method.getName().equals("add") && method.getParameterTypes()[0] == bytes)
                .filter(method -> method.getParameterCount() < 4 || method.getParameterTypes()[3] != boolean.class)
                .max(Comparator.comparingInt(Method::getParameterCount)).orElseThrow();
        piece = type("core.common.bytes.BytesArray", "common.bytes.BytesArray")
                .getConstructor(byte[].class, int.class, int.class);
        composite = Arrays.stream(
                type("core.common.bytes.CompositeBytesReference", "common.bytes.CompositeBytesReference").getMethods())
                .filter(method -> method.getName().equals("of")).findAny().orElseThrow();
        restVersion = exists(root + "core.RestApiVersion")
                ? type("core.RestApiVersion").getMethod("current").invoke(null) : null;
        startStreaming = Arrays.stream(type("action.bulk.BulkRequestParser").getMethods())
                .filter(method -> method.getName().equals("incrementalParser"))
                .min(Comparator.comparingInt(Method::getParameterCount)).orElse(null);
        streaming = startStreaming == null ? null
                : type("action.bulk.BulkRequestParser").getConstructors()[0].newInstance(true, true, restVersion);
        parse = startStreaming == null ? null
                : startStreaming.getReturnType().getMethod("parse", bytes, boolean.class);
        addAll = bulk.getMethod("add", Iterable.class);
        statusOf = type("ExceptionsHelper").getMethod("status", Throwable.class);
    }

    private String answer(byte[] body, Query query) throws Exception {
        if (body.length == 0) {
            return refusal(400, "request body is required"); // by the REST layer of all releases
        }
        String whole = answer(body, query, 0);
        if (streaming == null || body.length < 2) {
            return whole;
        }
        // A body may also arrive in pieces.
        String cut = answer(body, query, 1 + Math.floorMod(Arrays.hashCode(body), body.length - 1));
        return whole.equals(cut) || whole.startsWith("{\"refused\"") ? whole
                : cut.startsWith("{\"refused\"") ? cut : refusal(0, "other operations in two pieces: " + cut);
    }

    private String answer(byte[] body, Query query, int cut) throws Exception {
        Object request = bulk.getConstructor().newInstance();
        try {
            if (cut == 0) {
                add.invoke(request, parameters(add, query, piece(body, 0, body.length)));
            } else {
                stream(request, body, query, cut);
            }
        } catch (InvocationTargetException failed) {
            Throwable cause = failed.getCause();
            int status = (Integer) get(statusOf.invoke(null, cause), "getStatus");
            return refusal(status, String.valueOf(cause));
        }
        Object invalid = get(request, "validate");
        return invalid != null ? refusal(400, invalid.toString()) : operations((List<?>) get(request, "requests"));
    }

    /** Parses a body as the REST handler does when it arrives in two pieces. */
    private void stream(Object request, byte[] body, Query query, int cut) throws Exception {
        List<Object> found = new ArrayList<>();
        BiConsumer<Object, Object> index = (operation, type) -> found.add(operation);
        Consumer<Object> other = found::add;
        Object parser = startStreaming.invoke(streaming, parameters(startStreaming, query, index, other, other));
        int parsed = (Integer) parse.invoke(parser, piece(body, 0, cut), false);
        Object pieces = Array.newInstance(bytes, 2);
        Array.set(pieces, 0, piece(body, parsed, cut));
        Array.set(pieces, 1, piece(body, cut, body.length));
        Object rest = parsed == cut ? piece(body, cut, body.length) : composite.invoke(null, pieces);
        parse.invoke(parser, rest, true);
        addAll.invoke(request, found);
    }

    /** A piece in the same array, like that of a network buffer. */
    private Object piece(byte[] body, int from, int to) throws Exception {
        return piece.newInstance(body, from, to - from);
    }

    /** Returns the arguments as the REST handler gives them, by their types and in their order. */
    private Object[] parameters(Method method, Query query, Object... given) throws Exception {
        Class<?>[] types = method.getParameterTypes();
        long names = Arrays.stream(types).filter(type -> type == String.class).count();
        List<String> texts = new ArrayList<>(Arrays.asList(query.index, query.routing, query.pipeline));
        if (names == 4) {
            texts.add(1, null); // the type, which the path may name up to Elasticsearch 7 and OpenSearch 1
        }
        Object[] values = new Object[types.length];
        boolean isRequireAlias = true;
        int next = 0;
        for (int at = 0; at < types.length; at++) {
            Class<?> type = types[at];
            if (type == String.class) {
                values[at] = texts.remove(0);
            } else if (type == Boolean.class) {
                values[at] = isRequireAlias && query.requireAlias;
                isRequireAlias = false;
            } else if (type == boolean.class) {
                values[at] = query.allowExplicitIndex;
            } else if (type.isInstance(json)) {
                values[at] = json;
            } else if (type.getSimpleName().equals("RestApiVersion")) {
                values[at] = restVersion;
            } else if (type == bytes || type == BiConsumer.class || type == Consumer.class) {
                values[at] = given[next++];
            }
        }
        return values;
    }

    private String operations(List<?> operations) throws Exception {
        StringBuilder to = new StringBuilder("{\"accepted\":{\"operations\":[");
        for (Object operation : operations) {
            if (to.charAt(to.length() - 1) == '}') {
                to.append(',');
            }
            to.append("{\"action\":");
            quote(get(operation, "opType"), to);
            Method[] fields = fieldGetters.computeIfAbsent(operation.getClass(), type ->
                    Arrays.stream(FIELDS).map(field -> getter(type, field[1])).toArray(Method[]::new));
            for (int at = 0; at < FIELDS.length; at++) {
                Object value = fields[at] == null ? null : fields[at].invoke(operation);
                if (value != null) {
                    to.append(",\"").append(FIELDS[at][0]).append("\":");
                    write(value, to);
                }
            }
            Object source = get(operation, "source");
            if (source != null) {
                Object reference = get(source, "toBytesRef");
                CRC32 checksum = new CRC32();
                checksum.update((byte[]) field(reference, "bytes"), (Integer) field(reference, "offset"),
                        (Integer) field(reference, "length"));
                to.append(",\"source\":").append(checksum.getValue());
            }
            to.append('}');
        }
        return to.append("]}}").toString();
    }

    /** Writes the beginning of the reason. Some releases repeat the whole body in it. */
    private static String refusal(int status, String reason) {
        StringBuilder to = new StringBuilder("{\"refused\":{\"status\":").append(status).append(",\"reason\":");
        quote(reason.substring(0, Math.min(reason.length(), 1000)), to);
        return to.append("}}").toString();
    }

    private static void write(Object value, StringBuilder to) {
        if (value instanceof Number || value instanceof Boolean) {
            to.append(value);
        } else if (value instanceof Map) {
            quote(new TreeMap<>((Map<?, ?>) value), to);
        } else {
            quote(value, to);
        }
    }

    /** Writes a string in ASCII. An unpaired surrogate, which no JSON reader accepts, becomes its notation. */
    private static void quote(Object value, StringBuilder to) {
        String text = value instanceof Enum ? value.toString().toLowerCase(Locale.ROOT) : value.toString();
        to.append('"');
        int plain = 0; // where the characters begin that need no escape
        for (int at = 0; at < text.length(); at++) {
            char character = text.charAt(at);
            if (character >= ' ' && character <= '~' && character != '"' && character != '\\') {
                continue;
            }
            to.append(text, plain, at);
            boolean isPair = Character.isHighSurrogate(character) && at + 1 < text.length()
                    && Character.isLowSurrogate(text.charAt(at + 1));
            if (isPair) {
                escape(character, to);
                escape(text.charAt(++at), to);
            } else {
                escape(character, Character.isSurrogate(character) ? to.append('\\') : to);
            }
            plain = at + 1;
        }
        to.append(text, plain, text.length()).append('"');
    }

    private static void escape(char character, StringBuilder to) {
        to.append("\\u").append(HexFormat.of().toHexDigits(character));
    }

    /** Calls a method without parameters. Returns null if the object has none of this name. */
    private Object get(Object object, String name) throws Exception {
        Map<String, Method> known = getters.computeIfAbsent(object.getClass(), type -> new HashMap<>());
        if (!known.containsKey(name)) {
            known.put(name, getter(object.getClass(), name));
        }
        Method method = known.get(name);
        return method == null ? null : method.invoke(object);
    }

    /** Returns a method without parameters, or null if the class has none of this name. */
    private static Method getter(Class<?> type, String name) {
        Method found = null;
        for (Method method : type.getMethods()) {
            if (method.getName().equals(name) && method.getParameterCount() == 0) {
                found = method;
                found.setAccessible(true);
            }
        }
        return found;
    }

    private static Object field(Object object, String name) throws Exception {
        return object.getClass().getField(name).get(object);
    }

    private Class<?> type(String... names) throws ClassNotFoundException {
        for (String name : names) {
            if (exists(root + name)) {
                return Class.forName(root + name);
            }
        }
        throw new ClassNotFoundException(root + names[0]);
    }

    private static boolean exists(String name) {
        try {
            Class.forName(name, false, BulkParser.class.getClassLoader());
            return true;
        } catch (ClassNotFoundException absent) {
            return false;
        }
    }
}
