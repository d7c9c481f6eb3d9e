import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.hc.core5.http.HttpHost;
import org.opensearch.client.json.jackson.JacksonJsonpMapper;
import org.opensearch.client.opensearch.OpenSearchClient;
import org.opensearch.client.opensearch._types.OpenSearchException;
import org.opensearch.client.opensearch._types.WriteResponseBase;
import org.opensearch.client.transport.httpclient5.ApacheHttpClient5TransportBuilder;
import org.opensearch.client.transport.httpclient5.ResponseException;

/** Sends operations with opensearch-java. */
public final class OpenSearchOperations {
    public static void main(String[] arguments) throws Exception {
        var options = List.of(arguments).subList(0, arguments.length - 4);
        var rest = arguments.length - 3;
        var builder = ApacheHttpClient5TransportBuilder.builder(HttpHost.create(arguments[rest]))
            .setMapper(new JacksonJsonpMapper())
            .setCompressionEnabled(options.contains("--compress"));
        try (var transport = builder.build()) {
            var client = new OpenSearchClient(transport);
            SendOperations.run(operation -> send(client, operation), arguments[rest + 1], arguments[rest + 2]);
        }
    }

    private static SendOperations.Answer send(OpenSearchClient client, SendOperations.Operation of) throws Exception {
        try {
            WriteResponseBase answer = switch (of.action()) {
                case "create" -> client.create(
                    it -> it.index(of.index()).id(of.id()).routing(of.routing()).document(of.document()));
                case "update" -> client.update(
                    it -> it.index(of.index()).id(of.id()).routing(of.routing()).doc(of.document()), JsonNode.class);
                // The client would send a null as text, and an empty list as an empty value.
                case "delete" -> client.delete(it ->
                    (of.routing() == null ? it : it.routing(of.routing())).index(of.index()).id(of.id()));
                default -> client.index(
                    it -> it.index(of.index()).id(of.id()).routing(of.routing()).document(of.document()));
            };
            return SendOperations.Answer.of(answer.id(), answer.result().jsonValue(), answer.version());
        } catch (OpenSearchException refused) {
            return new SendOperations.Answer(of.id(), null, null, refused.status(), refused.error().type());
        } catch (ResponseException refused) {
            // The client raises this exception for a conflict. Only its message has the answer, after the first line.
            var answer = refused.getMessage().lines().skip(1).collect(Collectors.joining());
            var error = SendOperations.JSON.readTree(answer).at("/error/type").asText();
            return new SendOperations.Answer(of.id(), null, null, refused.status(), error);
        }
    }
}
