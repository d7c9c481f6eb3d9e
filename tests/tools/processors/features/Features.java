package reshuffle.processors;

import java.util.Set;
import org.elasticsearch.features.FeatureSpecification;
import org.elasticsearch.features.NodeFeature;

/**
 * The failure stores of data streams. The server has their code, but uses it only if all nodes have this feature, which
 * a module declares that these servers lack.
 */
public final class Features implements FeatureSpecification {
    @Override
    public Set<NodeFeature> getFeatures() {
        return Set.of(new NodeFeature("data_stream.failure_store"));
    }
}
