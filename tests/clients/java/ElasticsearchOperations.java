import co.elastic.clients.elasticsearch.ElasticsearchClient;
import co.elastic.clients.elasticsearch._types.ElasticsearchException;
import co.elastic.clients.elasticsearch._types.WriteResponseBase;
import co.elastic.clients.json.jackson.JacksonJsonpMapper;
import co.elastic.clients.transport.rest_client.RestClientTransport;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import org.apache.http.HttpHost;
import org.elasticsearch.client.ResponseException;
import org.elasticsearch.client.RestClient;

/** Sends operations with elasticsearch-java. */
public final class ElasticsearchOperations {
    public static void main(String[] arguments) throws Exception {
        var options = List.of(arguments).subList(0, arguments.length - 4);
        var rest = arguments.length - 3;
        var nodes = RestClient.builder(HttpHost.create(arguments[rest]))
            .setCompressionEnabled(options.contains("--compress"));
        try (var transport = new RestClientTransport(nodes.build(), new JacksonJsonpMapper())) {
            var client = new ElasticsearchClient(transport);
            SendOperations.run(operation -> send(client, operation), arguments[rest + 1], arguments[rest + 2]);
        }
    }

    private static SendOperations.Answer send(ElasticsearchClient client, SendOperations.Operation of)
            throws Exception {
        try {
            WriteResponseBase answer = switch (of.action()) {
                case "create" -> client.create(
                    it -> it.index(of.index()).id(of.id()).routing(of.routing()).document(of.document()));
                case "update" -> client.update(
                    it -> it.index(of.index()).id(of.id()).routing(of.routing()).doc(of.document()), JsonNode.class);
                case "delete" -> client.delete(it -> it.index(of.index()).id(of.id()).routing(of.routing()));
                default -> client.index(
                    it -> it.index(of.index()).id(of.id()).routing(of.routing()).document(of.document()));
            };
            return SendOperations.Answer.of(answer.id(), answer.result().jsonValue(), answer.version());
        } catch (ElasticsearchException refused) {
            return new SendOperations.Answer(of.id(), null, null, refused.status(), refused.error().type());
        } catch (ResponseException refused) {
            // The client raises this exception for a conflict.
            var response = refused.getResponse();
            var error = SendOperations.JSON.readTree(response.getEntity().getContent()).at("/error/type").asText();
            return new SendOperations.Answer(of.id(), null, null, response.getStatusLine().getStatusCode(), error);
        }
    }
}
