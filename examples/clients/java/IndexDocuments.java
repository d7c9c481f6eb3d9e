import co.elastic.clients.elasticsearch.ElasticsearchClient;
import co.elastic.clients.elasticsearch._helpers.bulk.BulkIngester;
import co.elastic.clients.elasticsearch._helpers.bulk.BulkListener;
import co.elastic.clients.elasticsearch.core.BulkRequest;
import co.elastic.clients.elasticsearch.core.BulkResponse;
import co.elastic.clients.json.jackson.JacksonJsonpMapper;
import co.elastic.clients.transport.BackoffPolicy;
import co.elastic.clients.transport.rest_client.RestClientTransport;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.http.Header;
import org.apache.http.HttpHost;
import org.apache.http.message.BasicHeader;
import org.elasticsearch.client.RestClient;

/**
 * Indexes the documents of a file: one JSON object in each line, with an "id".
 *
 * <pre>ELASTICSEARCH_URL=http://127.0.0.1:9200 java -cp 'lib/*' IndexDocuments.java INDEX FILE</pre>
 */
public class IndexDocuments {
    public static void main(String[] args) throws Exception {
        var outcome = new Outcome();
        var mapper = new ObjectMapper();
        // One client for the whole program keeps its connections open.
        try (var transport = new RestClientTransport(restClient(), new JacksonJsonpMapper(mapper));
                var lines = Files.lines(Path.of(args[1]))) {
            var ingester = BulkIngester.<String>of(b -> b
                .client(new ElasticsearchClient(transport))
                .maxOperations(1000)
                .maxConcurrentRequests(4)
                .backoffPolicy(BackoffPolicy.exponentialBackoff(500L, 5)) // after a 429; the default is to give up
                // Its threads for retries can all wait for room among the operations; this thread then makes room.
                .flushInterval(1, TimeUnit.SECONDS)
                .listener(outcome));
            for (var line : (Iterable<String>) lines::iterator) {
                var document = mapper.readTree(line);
                var id = document.get("id").asText(); // with ids, unknown outcomes can be retried
                ingester.add(operation -> operation.index(i -> i.index(args[0]).id(id).document(document)), id);
            }
            ingester.close(); // sends the remaining documents, and waits for all answers
        }
        System.out.println(outcome.indexed + " indexed, " + outcome.failed + " failed");
        System.exit(outcome.failed.get() > 0 ? 1 : 0);
    }

    static RestClient restClient() {
        var url = System.getenv().getOrDefault("ELASTICSEARCH_URL", "http://127.0.0.1:9200");
        var apiKey = System.getenv("ELASTICSEARCH_API_KEY");
        var builder = RestClient.builder(HttpHost.create(url))
            .setRequestConfigCallback(config -> config.setSocketTimeout(120_000)); // milliseconds
        if (apiKey != null) {
            builder.setDefaultHeaders(new Header[] {new BasicHeader("Authorization", "ApiKey " + apiKey)});
        }
        return builder.build();
    }

    /** The request as a whole was answered with 200: only the items show which documents were not indexed. */
    static class Outcome implements BulkListener<String> {
        final AtomicInteger indexed = new AtomicInteger();
        final AtomicInteger failed = new AtomicInteger();

        @Override
        public void beforeBulk(long number, BulkRequest request, List<String> ids) {}

        @Override
        public void afterBulk(long number, BulkRequest request, List<String> ids, BulkResponse response) {
            for (var item : response.items()) {
                if (item.error() == null) {
                    indexed.incrementAndGet();
                } else {
                    failed.incrementAndGet();
                    System.err.println(item.id() + " " + item.status() + " " + item.error().type());
                }
            }
        }

        @Override
        public void afterBulk(long number, BulkRequest request, List<String> ids, Throwable failure) {
            failed.addAndGet(ids.size());
            ids.forEach(id -> System.err.println(id + " " + failure));
        }
    }
}
