package reshuffle.processors;

import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.elasticsearch.script.IngestConditionalScript;
import org.elasticsearch.script.ScriptContext;
import org.elasticsearch.script.ScriptEngine;

/** The part of Painless that compares a field with a literal, for the conditions of processors. */
final class Conditions implements ScriptEngine {
    private static final Pattern COMPARISON = Pattern.compile(
        "\\s*ctx(?:\\.(?<field>\\w+)|\\['(?<quoted>[^']+)'\\])\\s*(?<operator>==|!=)\\s*"
            + "(?:(?<word>null|true|false)|(?<number>-?\\d+(?:\\.\\d+)?)|(?<quote>['\"])(?<text>[^'\"]*)\\k<quote>)\\s*");

    @Override
    public String getType() {
        return "painless";
    }

    @Override
    public Set<ScriptContext<?>> getSupportedContexts() {
        return Set.of(IngestConditionalScript.CONTEXT);
    }

    @Override
    public <F> F compile(String name, String code, ScriptContext<F> context, Map<String, String> parameters) {
        if (!context.equals(IngestConditionalScript.CONTEXT)) {
            throw new IllegalArgumentException("this server has Painless for the conditions of processors only");
        }
        return context.factoryClazz.cast(Release.script(comparison(code)));
    }

    private static Predicate<Map<String, Object>> comparison(String code) {
        Matcher found = COMPARISON.matcher(code);
        if (!found.matches()) {
            throw new IllegalArgumentException("cannot compile [" + code + "]: compare ctx.field with a literal");
        }
        String field = found.group("field") != null ? found.group("field") : found.group("quoted");
        Object literal = literal(found);
        boolean equal = found.group("operator").equals("==");
        return document -> same(document.get(field), literal) == equal;
    }

    private static Object literal(Matcher found) {
        if (found.group("number") != null) {
            return Double.valueOf(found.group("number"));
        }
        if (found.group("word") != null) {
            return found.group("word").equals("null") ? null : Boolean.valueOf(found.group("word"));
        }
        return found.group("text");
    }

    private static boolean same(Object value, Object literal) {
        Object comparable = value instanceof Number number ? (Object) number.doubleValue() : value;
        return comparable == null ? literal == null : comparable.equals(literal);
    }
}
