import java.util.Map;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.opensearch.sink.Opensearch2SinkBuilder;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.http.HttpHost;
import org.opensearch.action.index.IndexRequest;

/**
 * Indexes documents with Flink's connector for OpenSearch, in this process. The arguments are the number of documents
 * and the cluster's URL.
 */
public final class WriteDocuments {
    public static void main(String[] arguments) throws Exception {
        Configuration loopback = Configuration.fromMap(Map.of(
                "jobmanager.bind-host", "127.0.0.1",
                "taskmanager.bind-host", "127.0.0.1",
                "rest.bind-address", "127.0.0.1"));
        StreamExecutionEnvironment flink = StreamExecutionEnvironment.createLocalEnvironment(2, loopback);
        flink.fromSequence(0, Long.parseLong(arguments[0]) - 1)
                .sinkTo(new Opensearch2SinkBuilder<Long>()
                        .setHosts(HttpHost.create(arguments[1]))
                        .setEmitter((n, context, indexer) -> indexer.add(request(n)))
                        .build());
        flink.execute("books");
    }

    private static IndexRequest request(long n) {
        return new IndexRequest("books").id("entry-" + n).source("n", n, "text", "line " + n);
    }
}
