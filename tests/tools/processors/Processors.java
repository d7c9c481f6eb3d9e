package reshuffle.processors;

import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.ingest.DropProcessor;
import org.elasticsearch.ingest.PipelineProcessor;
import org.elasticsearch.ingest.Processor;
import org.elasticsearch.plugins.IngestPlugin;
import org.elasticsearch.plugins.Plugin;
import org.elasticsearch.plugins.ScriptPlugin;
import org.elasticsearch.script.ScriptContext;
import org.elasticsearch.script.ScriptEngine;

/**
 * The plug-in: some of the common ingest processors, for servers without them. Types and options have the names of the
 * servers' own, so a definition works on every server. Templates in options are not supported.
 */
public class Processors extends Plugin implements IngestPlugin, ScriptPlugin {
    @Override
    public Map<String, Processor.Factory> getProcessors(Processor.Parameters parameters) {
        Map<String, Processor.Factory> found = new HashMap<>();
        Changes.BY_TYPE.forEach((type, reader) -> found.put(type, Release.factory((tag, description, config) ->
            new ChangeProcessor(type, tag, description, reader.read(new Options(type, tag, config))))));
        found.put("enrich", Release.factory((tag, description, config) ->
            new LateProcessor("enrich", tag, description,
                Changes.enrich(new Options("enrich", tag, config)), parameters.scheduler)));
        found.put("drop", new DropProcessor.Factory());
        found.put("pipeline", new PipelineProcessor.Factory(parameters.ingestService));
        return found;
    }

    @Override
    public ScriptEngine getScriptEngine(Settings settings, Collection<ScriptContext<?>> contexts) {
        return new Conditions();
    }
}
