package reshuffle.processors;

/** The failure of a fail processor. The server derives the error's type from the name of this class. */
final class FailProcessorException extends RuntimeException {
    private static final long serialVersionUID = 1;

    FailProcessorException(String message) {
        super(message);
    }
}
