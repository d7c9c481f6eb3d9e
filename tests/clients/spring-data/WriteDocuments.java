import co.elastic.clients.elasticsearch.ElasticsearchClient;
import co.elastic.clients.json.jackson.JacksonJsonpMapper;
import co.elastic.clients.transport.rest_client.RestClientTransport;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.http.HttpHost;
import org.elasticsearch.client.RestClient;
import org.springframework.data.annotation.Id;
import org.springframework.data.elasticsearch.annotations.Document;
import org.springframework.data.elasticsearch.client.elc.ElasticsearchTemplate;
import org.springframework.data.elasticsearch.repository.ElasticsearchRepository;
import org.springframework.data.elasticsearch.repository.support.ElasticsearchRepositoryFactory;

/** Saves, changes, deletes and reads entities through a repository of Spring Data, in several threads. */
public final class WriteDocuments {
    private static final int THREADS = 8;

    @Document(indexName = "spring-data", createIndex = false)
    static final class Book {
        @Id String id;
        String title;
        int edition;
    }

    interface Books extends ElasticsearchRepository<Book, String> {}

    /** Arguments: the URL of the cluster, and the number of entities. Prints the entities that can be read afterwards. */
    public static void main(String[] arguments) throws Exception {
        var rest = RestClient.builder(HttpHost.create(arguments[0])).build();
        try (var transport = new RestClientTransport(rest, new JacksonJsonpMapper());
                var threads = Executors.newFixedThreadPool(THREADS)) {
            var template = new ElasticsearchTemplate(new ElasticsearchClient(transport));
            var books = new ElasticsearchRepositoryFactory(template).getRepository(Books.class);
            List<Future<String>> written = new ArrayList<>();
            for (int n = 0; n < Integer.parseInt(arguments[1]); n++) {
                var number = n;
                Callable<String> write = () -> write(books, number);
                written.add(threads.submit(write));
            }
            for (var each : written) {
                System.out.println(each.get());
            }
        }
    }

    /** The server chooses the id of each fifth entity. Each third entity is changed, each fourth deleted. */
    private static String write(Books books, int n) {
        var book = new Book();
        book.id = n % 5 == 0 ? null : "book " + n + "/é";
        book.title = "“" + n + "”\nin two lines";
        book.edition = 1;
        book = books.save(book);
        if (n % 3 == 0) {
            book.edition = 2;
            books.save(book);
        }
        if (n % 4 == 0) {
            books.deleteById(book.id);
        }
        return n + " " + books.findById(book.id).map(found -> found.edition + " " + found.id).orElse("absent");
    }
}
