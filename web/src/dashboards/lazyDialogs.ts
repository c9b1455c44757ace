/// Dialogs, which few visits open, in chunks of their own.

import { lazy } from "@/api/lazy";

const dashboard = () => import("./DashboardDialogs");
const tile = () => import("./TileDialogs");

export const AccessDialog = lazy(async () => ({
  default: (await import("./AccessDialog")).AccessDialog,
}));
export const ShareDialog = lazy(async () => ({
  default: (await import("./ShareDialog")).ShareDialog,
}));
export const OverridesDialog = lazy(async () => ({
  default: (await import("./OverridesDialog")).OverridesDialog,
}));
export const NewDashboardDialog = lazy(async () => ({
  default: (await dashboard()).NewDashboardDialog,
}));
export const CopyDashboardDialog = lazy(async () => ({
  default: (await dashboard()).CopyDashboardDialog,
}));
export const DetailsDialog = lazy(async () => ({ default: (await dashboard()).DetailsDialog }));
export const AddInsightDialog = lazy(async () => ({ default: (await tile()).AddInsightDialog }));
export const TextTileDialog = lazy(async () => ({ default: (await tile()).TextTileDialog }));
export const LinkTileDialog = lazy(async () => ({ default: (await tile()).LinkTileDialog }));
export const PlaceDialog = lazy(async () => ({ default: (await tile()).PlaceDialog }));
export const SendTileDialog = lazy(async () => ({ default: (await tile()).SendTileDialog }));
