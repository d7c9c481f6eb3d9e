import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;

/** Sends each operation in a request of its own. See ../README.md. */
final class SendOperations {
    static final int THREADS = 4;
    static final ObjectMapper JSON = new ObjectMapper();

    record Operation(String action, String index, String id, String routing, JsonNode document) {}

    /** A client's answer. The result, the version and the type of the error are null if the answer lacks them. */
    record Answer(String id, String result, Long version, int status, String error) {
        static Answer of(String id, String result, Long version) {
            int status = switch (result) {
                case "created" -> 201;
                case "updated", "deleted" -> 200;
                case "not_found" -> 404;
                default -> throw new IllegalArgumentException(result);
            };
            return new Answer(id, result, version, status, null);
        }
    }

    interface Client {
        Answer send(Operation operation) throws Exception;
    }

    static void run(Client client, String index, String file) throws Exception {
        var succeeded = new AtomicInteger();
        var failed = new AtomicInteger();
        try (var threads = Executors.newFixedThreadPool(THREADS)) {
            List<Future<Void>> sent = new ArrayList<>();
            for (String line : Files.readAllLines(Path.of(file))) {
                var read = JSON.readTree(line);
                var operation = new Operation(
                    read.get("action").asText(), index, text(read, "id"), text(read, "routing"), read.get("document"));
                Callable<Void> send = () -> {
                    var answer = client.send(operation);
                    (answer.status < 300 ? succeeded : failed).incrementAndGet();
                    print(report(read.get("n"), operation, answer));
                    return null;
                };
                sent.add(threads.submit(send));
            }
            for (var each : sent) {
                each.get();
            }
        }
        print(JSON.createObjectNode().put("succeeded", succeeded.get()).put("failed", failed.get()));
    }

    private static String text(JsonNode of, String field) {
        return of.get(field).isNull() ? null : of.get(field).asText();
    }

    private static ObjectNode report(JsonNode n, Operation operation, Answer answer) {
        var report = JSON.createObjectNode().put("action", operation.action).put("status", answer.status);
        report.put("id", answer.id).put("version", answer.version).put("error", answer.error).set("n", n);
        return report;
    }

    private static synchronized void print(JsonNode line) {
        System.out.println(line);
    }
}
