package reshuffle.processors;

import java.util.Map;
import org.elasticsearch.index.mapper.Mapper;
import org.elasticsearch.index.mapper.TextFieldMapper;
import org.elasticsearch.plugins.MapperPlugin;

/** The plug-in for servers with failure stores. It adds a type of field that their mapping has and these servers lack. */
public final class FailureStores extends Processors implements MapperPlugin {
    @Override
    public Map<String, Mapper.TypeParser> getMappers() {
        return Map.of("match_only_text", TextFieldMapper.PARSER);
    }
}
