import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;
import org.elasticsearch.spark.rdd.api.java.JavaEsSpark;

/**
 * Indexes a file of JSON documents with elasticsearch-spark, in this process. The arguments are the file, the cluster's
 * URL, and further settings as name=value.
 */
public final class WriteDocuments {
    public static void main(String[] arguments) {
        SparkConf configuration = new SparkConf()
                .setMaster("local[2]")
                .setAppName("books")
                .set("spark.ui.enabled", "false")
                .set("es.nodes", arguments[1])
                // The library would otherwise write to the nodes' own addresses.
                .set("es.nodes.wan.only", "true");
        for (int i = 2; i < arguments.length; i++) {
            String[] setting = arguments[i].split("=");
            configuration.set(setting[0], setting[1]);
        }
        try (JavaSparkContext spark = new JavaSparkContext(configuration)) {
            JavaEsSpark.saveJsonToEs(spark.textFile(arguments[0], 2), "books");
        }
    }
}
