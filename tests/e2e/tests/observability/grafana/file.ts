// The type of a dashboard's file, from Grafana's own types.
import { Dashboard, Panel, RowPanel } from "@grafana/schema/dist/types/raw/dashboard/x/types.gen";
import * as stat from "@grafana/schema/dist/types/raw/composable/stat/panelcfg/x/types.gen";
import * as timeseries from "@grafana/schema/dist/types/raw/composable/timeseries/panelcfg/x/types.gen";

/** The type in JSON, in which a member of an enumeration is its text. */
type Plain<T> = T extends string ? `${T}` : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;

/** A panel of one kind, with the options of that kind. */
type Own<Kind, Options, Custom> = Omit<Panel, "type" | "options" | "fieldConfig"> & {
  type: Kind;
  options: Options;
  fieldConfig: Omit<Panel["fieldConfig"] & {}, "defaults"> & {
    defaults: Omit<NonNullable<Panel["fieldConfig"]>["defaults"], "custom"> & { custom?: Custom };
  };
};

type Shown =
  | RowPanel
  | Own<"stat", stat.Options, undefined>
  | Own<"timeseries", timeseries.Options, timeseries.FieldConfig>;

/** A dashboard's file. */
export type File = Plain<Omit<Dashboard, "panels"> & { panels: Shown[] }>;
