import { CSPProvider } from "@base-ui/react/csp-provider";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { queryClient } from "@/api/queryClient";
import { Toaster, TooltipProvider } from "@/ui";
import { router } from "./router";
import "./ui/theme.css";

const nonce = document.querySelector<HTMLMetaElement>("meta[name=csp-nonce]")?.content;
const root = document.getElementById("root");
if (!root) throw new Error("the page has no element #root");

createRoot(root).render(
  <StrictMode>
    <CSPProvider nonce={nonce}>
      <QueryClientProvider client={queryClient}>
        <TooltipProvider delay={400}>
          <RouterProvider router={router} />
          <Toaster />
        </TooltipProvider>
      </QueryClientProvider>
    </CSPProvider>
  </StrictMode>,
);
